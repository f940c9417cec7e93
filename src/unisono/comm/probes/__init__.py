"""Measurements before a run: links between machines, and the cost of compression."""
