"""Bootstrap resamples of a set, as sacreBLEU draws them: 1,000, with the same seed.

A matrix product sums the counts of many resamples at once, which takes a tenth of the time and
bounded memory.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
BOOTSTRAP_SEED = 12345  # sacreBLEU's own
DRAWN_AT_ONCE = 4_000_000  # indices of sentences, eight bytes each

Numbers = NDArray[np.float64]


def resampled_sums(counts: Numbers) -> Iterator[Numbers]:
    """Yield sums over the rows of `counts` (sentences, C), one row for each resample."""
    sentences, random = len(counts), np.random.default_rng(BOOTSTRAP_SEED)
    at_once = max(1, DRAWN_AT_ONCE // sentences)
    for start in range(0, RESAMPLES, at_once):
        rows = min(at_once, RESAMPLES - start)
        drawn = random.choice(sentences, size=(rows, sentences), replace=True)
        drawn += sentences * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * sentences)
        yield times.reshape(rows, sentences).astype(np.float64) @ counts


def percentiles(values: Numbers) -> tuple[float, float]:
    """Return the bounds of 95 % of `values`: of 1,000 the 25th lowest and the 25th highest."""
    ordered = np.sort(values)
    out = len(ordered) // 40
    return float(ordered[out]), float(ordered[-out - 1])
