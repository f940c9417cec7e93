"""How often a pass over the corpus takes the pairs of each source."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Source:
    """Some pairs that lie together, and how often each is taken in one pass."""

    pairs: int
    weight: float = 1.0


def draw(sources: Sequence[Source], *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the numbers of the pairs that epoch `epoch`, counted from 1, is made of.

    A weight of 2.5 takes every pair twice and a half of them once more. Which half moves on
    from epoch to epoch, so that after two all have been taken equally often.
    """
    parts, start = [], 0
    for number, source in enumerate(sources):
        whole, share = divmod(source.weight, 1.0)
        everything = np.arange(start, start + source.pairs)
        parts += [everything] * int(whole)
        if extra := round(share * source.pairs):
            shuffled = np.random.default_rng((seed, number)).permutation(everything)
            first = (epoch - 1) * extra
            parts.append(shuffled[np.arange(first, first + extra) % source.pairs])
        start += source.pairs
    return np.concatenate([np.empty(0, np.int64), *parts])
