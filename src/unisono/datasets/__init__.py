"""Parallel text for training: the built-in corpus and a catalogue of public corpora."""
