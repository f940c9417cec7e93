"""Is one system better than another on the same sentences, or is it chance?

Paired bootstrap resampling (Koehn, 2004), with sacreBLEU's resamples and its p-value: both
systems are scored on the same 1,000 resamples, and the difference counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unisono.score.bleu import check_counts
from unisono.score.metrics import Metric
from unisono.score.resample import RESAMPLES, Numbers, percentiles, resampled_sums

SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Comparison:
    """The scores of systems A and B by one metric, and B minus A with its 95 % interval."""

    metric: str
    higher_is_better: bool
    first: float
    second: float
    low: float
    high: float
    p: float

    @property
    def difference(self) -> float:
        """Return B minus A."""
        return self.second - self.first

    @property
    def better(self) -> str:
        """Name the better system, "A" or "B"; "" if the difference may be chance.

        Both tests have to agree: the p-value, and an interval without 0.
        """
        if self.p >= SIGNIFICANCE or self.low <= 0 <= self.high:
            return ""
        return "B" if (self.difference > 0) == self.higher_is_better else "A"

    @property
    def sentence(self) -> str:
        """Say who is better, in words."""
        if self.better:
            return f"{self.better} is better; not chance"
        return "no difference that chance could not make"


def compare(
    metric: Metric, first: Sequence[str], second: Sequence[str], references: Sequence[str]
) -> Comparison:
    """Compare two systems that translated the same sentences."""
    for translations in (first, second):
        check_counts(translations, references)
    counts = (metric.counts(side, references) for side in (first, second))
    return compare_counts(metric, *counts)


def compare_counts(metric: Metric, first: Numbers, second: Numbers) -> Comparison:
    """Compare two systems by the counts of each sentence (N, C)."""
    columns = first.shape[1]
    both = np.concatenate([first, second], axis=1)

    def scored(sums: Numbers) -> Numbers:
        return np.stack([metric.scores(sums[:, :columns]), metric.scores(sums[:, columns:])])

    ours, theirs = scored(both.sum(axis=0, keepdims=True))[:, 0].tolist()
    drawn = np.concatenate([*map(scored, resampled_sums(both))], axis=1)
    differences = drawn[1] - drawn[0]
    sizes = np.abs(differences)
    beyond = int((sizes - sizes.mean() > abs(theirs - ours)).sum())
    low, high = percentiles(differences)
    p = (beyond + 1) / (RESAMPLES + 1)
    return Comparison(metric.name, metric.higher_is_better, ours, theirs, low, high, p)


def disagreement(comparisons: Sequence[Comparison]) -> str:
    """Say which metrics prefer which system, if they do not all prefer the same."""
    sides = {side: [c.metric for c in comparisons if c.better == side] for side in "AB"}
    if not all(sides.values()):
        return ""
    return f"the metrics disagree: {', '.join(sides['A'])} for A, {', '.join(sides['B'])} for B"
