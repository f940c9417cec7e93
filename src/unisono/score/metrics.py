"""The metrics of a set of translations: BLEU, chrF and TER as sacreBLEU computes them.

Each metric reduces a sentence to a row of counts (C), and summed rows to a score. So intervals
and paired comparisons need each sentence only once.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from unisono.score.bleu import bleu_counts, bleu_scores, check_counts, sacrebleu_signature
from unisono.score.resample import Numbers, percentiles, resampled_sums

CHARACTER_ORDER = 6
BETA_SQUARED = 4.0  # of chrF2: recall counts twice


@dataclass(frozen=True)
class Metric:
    """A way to score: its name, whether more is better, and its two steps."""

    name: str
    higher_is_better: bool
    counts: Callable[[Sequence[str], Sequence[str]], Numbers]  # (sentences, C)
    scores: Callable[[Numbers], Numbers]  # (sums, C) -> (sums,)
    signature: Callable[[], str]


@dataclass(frozen=True)
class Score:
    """A score, its 95 % interval, and how it was computed."""

    metric: str
    score: float
    low: float
    high: float
    signature: str


def score_by(metric: Metric, translations: Sequence[str], references: Sequence[str]) -> Score:
    """Score the translations of a set against one reference each."""
    check_counts(translations, references)
    return score_counts(metric, metric.counts(translations, references))


def score_counts(metric: Metric, counts: Numbers) -> Score:
    """Score a set by the counts of its sentences (N, C)."""
    resampled = np.concatenate([*map(metric.scores, resampled_sums(counts))])
    found = float(metric.scores(counts.sum(axis=0, keepdims=True))[0])
    return Score(metric.name, found, *percentiles(resampled), metric.signature())


def _chrf_counts(translations: Sequence[str], references: Sequence[str]) -> Numbers:
    """Return the n-grams of the translation, of the reference and of both, for each order."""
    rows = np.empty((len(references), CHARACTER_ORDER, 3))
    for row, pair in zip(rows, zip(translations, references, strict=True), strict=True):
        ours, theirs = ("".join(side.split()) for side in pair)
        for order in range(1, CHARACTER_ORDER + 1):
            found, expected = _ngrams(ours, order), _ngrams(theirs, order)
            # As in sacreBLEU, a reference too short for an order has no say in it.
            total = found.total() if expected else 0
            row[order - 1] = total, expected.total(), (found & expected).total()
    return rows.reshape(len(references), -1)


def _ngrams(text: str, order: int) -> Counter[str]:
    return Counter(text[start : start + order] for start in range(len(text) - order + 1))


def _chrf_scores(sums: Numbers) -> Numbers:
    found, expected, both = np.moveaxis(sums.reshape(len(sums), -1, 3), 2, 0)
    counts = (found > 0) & (expected > 0)
    orders = np.maximum(counts.sum(1), 1)
    precision, recall = (
        np.divide(both, total, out=np.zeros_like(both), where=counts).sum(1) / orders
        for total in (found, expected)
    )
    below = BETA_SQUARED * precision + recall
    above = (1 + BETA_SQUARED) * precision * recall
    scores: Numbers = 100 * np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return scores


def _ter_counts(translations: Sequence[str], references: Sequence[str]) -> Numbers:
    metric = TER()
    pairs = zip(translations, references, strict=True)
    scores = [metric.sentence_score(ours, [theirs]) for ours, theirs in pairs]
    return np.array([(score.num_edits, score.ref_length) for score in scores], np.float64)


def _ter_scores(sums: Numbers) -> Numbers:
    edits, words = sums.T
    empty = (edits > 0).astype(np.float64)
    scores: Numbers = 100 * np.divide(edits, words, out=empty, where=words > 0)
    return scores


def score_chrf(translations: Sequence[str], references: Sequence[str]) -> float:
    """Return chrF2 of a set, without its interval."""
    sums = _chrf_counts(translations, references).sum(axis=0, keepdims=True)
    return float(_chrf_scores(sums)[0])


METRICS = {
    metric.name: metric
    for metric in (
        Metric("BLEU", True, bleu_counts, bleu_scores, partial(sacrebleu_signature, BLEU)),
        Metric("chrF", True, _chrf_counts, _chrf_scores, partial(sacrebleu_signature, CHRF)),
        Metric("TER", False, _ter_counts, _ter_scores, partial(sacrebleu_signature, TER)),
    )
}
