"""Lines of text and the pieces a model reads: normalisation and tokenizers. No torch here."""
