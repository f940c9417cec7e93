"""Raw text → clean text → subwords → a corpus; and what was dropped on the way, and why."""

from unisono.prepare.build import prepare_corpus
from unisono.prepare.job import PrepareProgress

__all__ = ["PrepareProgress", "prepare_corpus"]
