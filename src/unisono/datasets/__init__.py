"""Text to learn from: the built-in corpus and the catalogue of public ones."""
