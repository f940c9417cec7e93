"""The first pass: read every text file once, normalise and filter, keep clean text on disk."""
