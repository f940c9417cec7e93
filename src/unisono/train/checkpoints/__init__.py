"""Checkpoints: their files, how processes share them, and rolling back to one."""
