"""BLEU, chrF and TER with sacreBLEU's digits, intervals and signatures, and paired comparisons.

No torch here.
"""

from unisono.score.bleu import Bleu, score_bleu
from unisono.score.files import score_files

__all__ = ["Bleu", "score_bleu", "score_files"]
