"""The built-in corpus: English to German sentence pairs from a little grammar of our own."""
