"""Plan an epoch: how often it uses each source, and which pairs make up each update.

The plan is a pure function of the lengths, the budget, the seed and the epoch. It does not
know how many processes there are: an update is a list of micro-batches, and rank r of n
takes every n-th. So the order of updates, and what each update sees, stays the same when
the number of machines changes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unisono.batching.settings import Budget
from unisono.errors import ConfigError


@dataclass(frozen=True)
class CorpusSource:
    """The pairs of one source, and how often an epoch uses each of them."""

    pairs: int
    weight: float = 1.0

    @property
    def taken(self) -> float:
        """Return how many pairs of it an epoch uses, repetitions included."""
        return self.pairs * self.weight


def apply_temperature(
    sources: Sequence[CorpusSource], temperature: float
) -> list[CorpusSource]:
    """Return the sources with their weights at `temperature`.

    The share of a source is proportional to weight · pairs^(1/temperature): at 1 it is
    unchanged, and the higher the temperature, the less the size of a source matters. The
    total number of pairs stays the same.
    """
    if temperature == 1.0:
        return list(sources)
    parts = [part.weight * part.pairs ** (1 / temperature) for part in sources]
    per_part = sum(part.taken for part in sources) / (sum(parts) or 1.0)
    return [
        replace(source, weight=part * per_part / source.pairs) if source.pairs else source
        for source, part in zip(sources, parts, strict=True)
    ]


def shares(sources: Sequence[CorpusSource]) -> list[float]:
    """Return the share of each source in the pairs of an epoch."""
    total = sum(source.taken for source in sources) or 1.0
    return [source.taken / total for source in sources]


def sample_epoch(
    sources: Sequence[CorpusSource], *, seed: int, epoch: int
) -> NDArray[np.int64]:
    """Return the indices of the pairs of `epoch`, counted from 1.

    A weight of 2.5 uses every pair twice, and half of them once more. The half changes from
    epoch to epoch, so that after two epochs all have been used equally often.
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


Indices = NDArray[np.int64]
Lengths = NDArray[np.int32]

END = 1  # each side of a pair has one token more than pieces: the end


@dataclass(frozen=True)
class MicroBatch:
    """The pairs that go through the model together, and their number within the update."""

    number: int
    indices: Indices


@dataclass(frozen=True)
class StepPlan:
    """One update: its micro-batches, and the tokens they add up to."""

    epoch: int
    micro_batches: tuple[MicroBatch, ...]
    source_tokens: int
    target_tokens: int
    positions: int
    sentences: int

    def share(self, rank: int, size: int) -> tuple[MicroBatch, ...]:
        """Return the micro-batches of `rank` among `size`; there may be none."""
        return self.micro_batches[rank::size]


class EpochPlan:
    """The updates of one epoch, each computed on demand."""

    def __init__(
        self, source: Lengths, target: Lengths, batches: list[Indices], steps: int, epoch: int
    ) -> None:
        self._source, self._target, self._batches = source, target, batches
        self._bounds = np.linspace(0, len(batches), steps + 1).round().astype(int)
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, step: int) -> StepPlan:
        if not 0 <= step < len(self):
            raise IndexError(step)
        chosen = self._batches[self._bounds[step] : self._bounds[step + 1]]
        sizes = [len(indices) for indices in chosen]
        sources = [self._source[indices] + END for indices in chosen]
        targets = [self._target[indices] + END for indices in chosen]
        widths = [int(s.max()) + int(t.max()) for s, t in zip(sources, targets, strict=True)]
        return StepPlan(
            epoch=self.epoch,
            micro_batches=tuple(MicroBatch(i, indices) for i, indices in enumerate(chosen)),
            source_tokens=int(sum(lengths.sum() for lengths in sources)),
            target_tokens=int(sum(lengths.sum() for lengths in targets)),
            positions=sum(width * size for width, size in zip(widths, sizes, strict=True)),
            sentences=sum(sizes),
        )

    def __iter__(self) -> Iterator[StepPlan]:
        return (self[step] for step in range(len(self)))


def plan_epoch(
    source: Lengths,
    target: Lengths,
    budget: Budget,
    *,
    seed: int,
    epoch: int,
    sources: Sequence[CorpusSource] = (),
) -> EpochPlan:
    """Plan one epoch: pairs of similar length together, micro-batches in random order.

    Lengths count pieces without the end. The epoch uses every pair once, or as often as the
    weights of its `sources` say.
    """
    rng = np.random.default_rng((seed, epoch))
    limit = budget.tokens_per_micro_batch
    if all(part.weight == 1.0 for part in sources):
        batches = batch_by_length(source, target, limit, rng)
    else:
        drawn = sample_epoch(sources, seed=seed, epoch=epoch)
        batches = [
            drawn[batch] for batch in batch_by_length(source[drawn], target[drawn], limit, rng)
        ]
    order = rng.permutation(len(batches))
    steps = max(1, round(len(batches) / budget.micro_batches_per_update))
    return EpochPlan(source, target, [batches[i] for i in order], steps, epoch)


def batch_by_length(
    source: Lengths, target: Lengths, limit: int, rng: np.random.Generator | None = None
) -> list[Indices]:
    """Split the pairs into batches of at most `limit` positions on the longer side.

    Pairs are sorted by length; with `rng`, ties are broken at random, so that a pair does
    not have the same neighbours in every epoch.
    """
    longer = np.maximum(source, target) + END
    _check_longest(longer, limit)
    ties = np.arange(len(source)) if rng is None else rng.permutation(len(source))
    order = _sorted(ties, source, target)
    sizes = longer[order].astype(np.int64)
    batches, start = [], 0
    while start < len(order):
        most = limit // int(sizes[start])
        widest = np.maximum.accumulate(sizes[start : start + most])
        fits = widest * np.arange(1, len(widest) + 1) <= limit
        count = len(fits) if fits.all() else int(fits.argmin())
        batches.append(order[start : start + count])
        start += count
    return batches


def _sorted(ties: Indices, source: Lengths, target: Lengths) -> Indices:
    """Return `np.lexsort((ties, source, target))`, but faster.

    numpy sorts 16-bit numbers by radix sort, and `ties` is a permutation.
    """
    order = np.empty_like(ties)
    order[ties] = np.arange(len(ties))
    for lengths in (source, target):
        keys = lengths[order]
        small = keys.astype(np.uint16) if keys.max() < 1 << 16 else keys
        order = order[np.argsort(small, kind="stable")]
    return order


def _check_longest(longer: NDArray[np.int32], limit: int) -> None:
    if len(longer) == 0:
        raise ConfigError("there are no pairs to make batches of", where="[corpus]")
    longest = int(longer.max())
    if longest > limit:
        raise ConfigError(
            f"pair {int(longer.argmax())} has {longest} tokens and does not fit into a batch "
            f"of {limit}",
            where="[batching] tokens_per_micro_batch",
            fix=f"raise it to {longest} or more, or prepare with a lower `corpus.max_pieces`",
        )
