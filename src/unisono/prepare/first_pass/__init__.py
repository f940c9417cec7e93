"""The first pass: read every text file once, filter its pairs, keep the clean text."""
