"""Runs and settings of other trainers → run directories and TOML of ours. No torch here.

Whatever stands in a foreign file is data. What it does not tell stays unknown.
"""
