"""Settings: one TOML file, strictly checked before anything starts. No torch here."""
