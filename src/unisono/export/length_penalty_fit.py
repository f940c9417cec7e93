"""The length penalty of another program that puts first what ours puts first.

Both searches end with the same translations of a sentence. Ours usually divides their
log-probabilities by ((5 + length) / 6) ** penalty, the other by (length + 1) ** penalty, so
that no value makes them agree on everything.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from unisono.translate.settings import Decoding
from unisono.translate.translator import RankedTranslation, Translator

# The length of a translation at which the two agree on one piece more, if nothing is known.
TYPICAL_PIECES = 20
STEP = 0.01

Alternatives = Sequence[RankedTranslation]


def typical_length_penalty(decoding: Decoding) -> float:
    """Return the penalty that weighs one more piece as ours does at a typical length.

    If ours has the same form, it is ours.
    """
    if decoding.length_penalty_form == "power":
        return decoding.length_penalty
    return round(decoding.length_penalty * TYPICAL_PIECES / (TYPICAL_PIECES + 5), 4)


def fitted_length_penalty(translator: Translator, lines: Sequence[str], workers: int) -> float:
    """Return the penalty that keeps our first translation of most `lines`."""
    usual = typical_length_penalty(translator.decoding)
    beam = translator.decoding.beam
    if beam == 1 or translator.decoding.length_penalty_form == "power":
        return usual
    stream = replace(translator, best=beam).translate_stream(
        lines, max(1000, 250 * workers), workers
    )
    rows = [line.alternatives for line in stream if line.parts == 1]
    return best_length_penalty(rows, usual)


def best_length_penalty(rows: Sequence[Alternatives], usual: float) -> float:
    """Return the penalty under which most `rows` keep their first; `usual` if none matters.

    Of all the best it is the middle of the longest range.
    """
    tried = np.arange(0, 2 * usual + 1, STEP)
    kept = np.zeros(len(tried))
    for row in rows:
        kept += keeps_first(row, tried)
    if kept.min() == kept.max():
        return usual
    best = np.flatnonzero(kept == kept.max())
    edges = [0, *np.flatnonzero(np.diff(best) > 1) + 1, len(best)]
    longest = max((best[start:end] for start, end in pairwise(edges)), key=len)
    return round(float(tried[longest].mean()), 4)


def keeps_first(row: Alternatives, tried: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say for each penalty whether the first of `row` stays the first."""
    logs = np.array([one.log_probability for one in row])
    lengths = np.array([one.pieces for one in row], np.float64)  # the end included
    scores = logs / lengths ** tried[:, None]
    kept: NDArray[np.bool_] = scores.argmax(axis=1) == 0
    return kept
