"""BPE-dropout: segment the sentences of every update into other pieces at random.

Every process resegments the whole update, not only its share. The loss is divided by the
tokens of the whole update, so every process knows their number without communication.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unisono.batching.plan import END, MicroBatch, StepPlan
from unisono.batching.segmentations import Segmentations, Uint64s, splitmix64
from unisono.batching.settings import Batching, Budget
from unisono.corpus.reader import Split
from unisono.text.merges import Counts, Ids, RaggedRows, merges_of
from unisono.text.tokenizer import Tokenizers

MAX_GROWTH = 2  # no micro-batch grows beyond this many times its budget
_TOKENS_AT_ONCE = 32768


@dataclass(frozen=True)
class Resegmented:
    """One update with its new sentences, and the tokens that it has now."""

    step: StepPlan
    source: list[Ids]
    target: list[Ids]

    def pairs(self, batch: MicroBatch) -> tuple[list[Ids], list[Ids]]:
        """Return the source and the target sentences of a micro-batch."""
        before = sum(len(other.indices) for other in self.step.micro_batches[: batch.number])
        rows = slice(before, before + len(batch.indices))
        return self.source[rows], self.target[rows]


@dataclass(frozen=True)
class BpeDropout:
    """Resegment source, target or both in every update.

    A sentence keeps its usual pieces if it would otherwise have more than `max_pieces`, or
    make its micro-batch larger than twice `budget.tokens_per_micro_batch`.
    """

    source: Segmentations | None
    target: Segmentations | None
    seed: int
    max_pieces: int
    budget: Budget

    @property
    def updates_at_once(self) -> int:
        """Return how many updates to resegment at once: one is inefficient, many take long."""
        return max(1, _TOKENS_AT_ONCE // self.budget.tokens_per_update)

    def __call__(
        self, split: Split, steps: Sequence[StepPlan], position: int
    ) -> Iterator[Resegmented]:
        """Resegment consecutive updates, the first at `position` of its epoch."""
        indices = [np.concatenate([b.indices for b in step.micro_batches]) for step in steps]
        keys = [
            self._keys(step, position + place, chosen)
            for place, (step, chosen) in enumerate(zip(steps, indices, strict=True))
        ]
        limits = np.concatenate([self._limits(step) for step in steps])
        source, target = split.pairs(np.concatenate(indices))
        source, target = self._resegment(source, target, np.concatenate(keys, axis=1), limits)
        start = 0
        for step, chosen in zip(steps, indices, strict=True):
            rows = slice(start, start + len(chosen))
            yield _recount(step, source[rows], target[rows])
            start = rows.stop

    def _keys(self, step: StepPlan, position: int, indices: Counts) -> Uint64s:
        """Return a random key for the source and for the target of each pair of an update."""
        seed = np.random.SeedSequence((self.seed, step.epoch, position))
        return splitmix64(
            indices.astype(np.uint64) + seed.generate_state(2, np.uint64)[:, None]
        )

    def _limits(self, step: StepPlan) -> Counts:
        """Return how many pieces each sentence of an update may have."""
        sizes = np.array([len(batch.indices) for batch in step.micro_batches])
        widest = MAX_GROWTH * self.budget.tokens_per_micro_batch // sizes - END
        return np.repeat(np.minimum(widest, self.max_pieces), sizes)

    def _resegment(
        self, source: list[Ids], target: list[Ids], keys: Uint64s, limits: Counts
    ) -> tuple[list[Ids], list[Ids]]:
        if self.source is self.target:
            both = _resegmented(self.source, source + target, keys.ravel(), np.tile(limits, 2))
            return both[: len(limits)], both[len(limits) :]
        return (
            _resegmented(self.source, source, keys[0], limits),
            _resegmented(self.target, target, keys[1], limits),
        )


def bpe_dropout_for(
    tokenizers: Tokenizers, batching: Batching, *, seed: int, max_pieces: int
) -> BpeDropout | None:
    """Return the BPE-dropout that `batching` asks for, or None."""
    if not batching.bpe_dropout:
        return None
    used = {"both": ("source", "target")}.get(
        batching.bpe_dropout_side, (batching.bpe_dropout_side,)
    )
    made: dict[str, Segmentations] = {}
    for side in used:
        if tokenizers.joint and made:
            made[side] = made[used[0]]  # they share a cache
            continue
        tokenizer = tokenizers.source if side == "source" else tokenizers.target
        merges = merges_of(tokenizer, where="[batching] bpe_dropout")
        made[side] = Segmentations(merges, batching.bpe_dropout, seed)
    return BpeDropout(made.get("source"), made.get("target"), seed, max_pieces, batching)


def _resegmented(
    segmentations: Segmentations | None, rows: list[Ids], keys: Uint64s, limits: Counts
) -> list[Ids]:
    if segmentations is None:
        return rows
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    new = segmentations.resegment(RaggedRows(np.concatenate(rows), lengths), keys)
    fits = (new.lengths <= limits).tolist()
    return [n if fit else row for n, row, fit in zip(new.split(), rows, fits, strict=True)]


def _recount(step: StepPlan, source: list[Ids], target: list[Ids]) -> Resegmented:
    """Return `step` with these sentences and the number of their tokens."""
    sizes = np.array([len(batch.indices) for batch in step.micro_batches])
    lengths = np.array([list(map(len, source)), list(map(len, target))]) + END
    widths = np.maximum.reduceat(lengths, np.cumsum(sizes) - sizes, axis=1)
    tokens = lengths.sum(axis=1)
    recounted = replace(
        step,
        source_tokens=int(tokens[0]),
        target_tokens=int(tokens[1]),
        positions=int((widths * sizes).sum()),
    )
    return Resegmented(recounted, source, target)
