"""Settings: one TOML file, checked strictly before anything starts. No torch here."""
