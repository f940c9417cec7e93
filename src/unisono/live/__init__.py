"""The live page of a run, for a terminal."""
