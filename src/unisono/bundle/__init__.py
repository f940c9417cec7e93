"""A trained model with all it takes to translate: see `docs/reference/bundle.md`."""
