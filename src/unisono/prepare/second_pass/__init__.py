"""The second pass: learn the vocabulary, encode the clean text, write the corpus."""
