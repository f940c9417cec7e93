"""Sizes and links turned into bytes and seconds. Pure functions: no torch, no files."""
