"""Optimizers. `settings` needs no torch; `build` does."""
