"""Runs with a known fault, and whether the report names it."""
