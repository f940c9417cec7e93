"""Unisono: train translation models on one machine or many, and know what happened."""

__version__ = "0.1.0"
