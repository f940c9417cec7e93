"""Measurements of links and of gradient compression, through the group that trains."""
