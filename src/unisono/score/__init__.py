"""How good a translation is: BLEU as everybody reports it. No torch here."""

from unisono.score.bleu import Bleu, score_bleu, score_files

__all__ = ["Bleu", "score_bleu", "score_files"]
