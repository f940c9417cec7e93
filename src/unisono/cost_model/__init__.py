"""From sizes and links to bytes, seconds and money. Pure functions: no torch, no files."""
