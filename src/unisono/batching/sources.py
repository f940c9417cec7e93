"""How often a pass over the corpus takes the pairs of each source."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Source:
    """Some pairs that lie together, and how often each is taken in one pass."""

    pairs: int
    weight: float = 1.0

    @property
    def taken(self) -> float:
        """Return how many pairs one pass takes of it, repeated ones counted again."""
        return self.pairs * self.weight


def tempered(sources: Sequence[Source], temperature: float) -> list[Source]:
    """Return the sources with the weights by which a pass at `temperature` takes them.

    A source is taken in proportion to weight · pairs^(1/temperature): at 1 as it is, and
    the hotter, the less its size counts; its own weight counts as before. A pass takes as
    many pairs in all as at 1.
    """
    if temperature == 1.0:
        return list(sources)
    parts = [part.weight * part.pairs ** (1 / temperature) for part in sources]
    per_part = sum(part.taken for part in sources) / (sum(parts) or 1.0)
    return [
        replace(source, weight=part * per_part / source.pairs) if source.pairs else source
        for source, part in zip(sources, parts, strict=True)
    ]


def shares(sources: Sequence[Source]) -> list[float]:
    """Return which part of the pairs of a pass comes from each source."""
    total = sum(source.taken for source in sources) or 1.0
    return [source.taken / total for source in sources]


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
