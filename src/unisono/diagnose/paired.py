"""Two evaluations compared sentence by sentence: is one better, or was it chance?

Some sentences are hard and some easy, for every state of the model, and that scatter is most
of what makes a mean uncertain. It cancels where sentences are compared with themselves. Whole
sets of sentences are drawn anew, a thousand times, and the difference is computed on each: what
all of them agree on does not depend on which sentences happened to be in the set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unisono.records.sentence_losses import Losses, SentenceLosses, Tokens

RESAMPLES = 1000
SEED = 1
DRAWN_AT_ONCE = 4_000_000  # numbers of sentences, which int32 can count
FEWEST_SENTENCES = 20


@dataclass(frozen=True)
class Difference:
    """What a later evaluation lost against another, in nats per token: above 0 is worse.

    `low` and `high` are the 95 % interval. `p` is how likely so large a difference, up or down,
    is by chance; with a thousand resamples it is never less than 0.002.
    """

    delta: float
    low: float
    high: float
    p: float


def compare(
    others: Sequence[Losses], reference: Losses, tokens: Tokens
) -> tuple[Difference, ...]:
    """Compare each of some evaluations with the `reference`, on the same resamples."""
    if not others:
        return ()
    table = np.stack([other.astype(np.float64) - reference for other in others], axis=1)
    deltas = table.sum(axis=0) / tokens.sum(dtype=np.int64)
    drawn = np.sort(_resampled(table, tokens.astype(np.float64)), axis=0)
    pairs = zip(deltas, drawn.T, strict=True)
    return tuple(_difference(float(delta), column) for delta, column in pairs)


def compare_steps(
    known: SentenceLosses, steps: Sequence[int], reference: int
) -> Mapping[int, Difference]:
    """Compare the evaluations after `steps` with that after `reference`, as far as possible.

    Nothing is compared if the reference was not kept, or if the set is too small to resample.
    """
    base = known.at_step.get(reference)
    if base is None or len(base) < FEWEST_SENTENCES:
        return {}
    there = [step for step in steps if step in known.at_step]
    found = compare([known.at_step[step] for step in there], base, known.tokens)
    return dict(zip(there, found, strict=True))


def _resampled(
    table: NDArray[np.float64], tokens: NDArray[np.float64]
) -> NDArray[np.float64]:  # (resamples, evaluations)
    """Return the difference per token on each resample of the rows of `table`."""
    sentences, random = len(table), np.random.default_rng(SEED)
    columns = np.concatenate([table, tokens[:, None]], axis=1)
    at_once, parts, left = max(1, DRAWN_AT_ONCE // sentences), [], RESAMPLES
    while left:
        rows = min(at_once, left)
        drawn = random.integers(sentences, size=(rows, sentences), dtype=np.int32)
        drawn += sentences * np.arange(rows, dtype=np.int32)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * sentences)
        sums = times.reshape(rows, sentences).astype(np.float64) @ columns
        parts.append(sums[:, :-1] / sums[:, -1:])
        left -= rows
    return np.concatenate(parts)


def _difference(delta: float, drawn: NDArray[np.float64]) -> Difference:
    """Read interval and chance off the sorted differences of all resamples."""
    out = len(drawn) // 40
    wrong_side = int((drawn <= 0).sum()) if delta > 0 else int((drawn >= 0).sum())
    p = min(1.0, 2 * (wrong_side + 1) / (len(drawn) + 1))
    return Difference(delta, float(drawn[out]), float(drawn[-out - 1]), p)
