"""What to ship: a trained model with all it takes to translate. See `docs/bundle.md`."""
