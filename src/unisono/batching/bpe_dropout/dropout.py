"""The sentences of updates in other pieces than usual: BPE-dropout.

Every process respells the whole of an update, not only its share. The loss is divided by the
tokens that there really are, and so all know their number without asking one another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unisono.batching.bpe_dropout.segmentations import Numbers, Segmentations, mixed
from unisono.batching.plan import END, MicroBatch, StepPlan
from unisono.batching.settings import Batching, Budget
from unisono.corpus.reader import Split
from unisono.text.merges import merges_of
from unisono.text.ragged import Counts, Ids, RaggedRows
from unisono.text.tokenizer import Tokenizers

MOST_GROWTH = 2  # no micro-batch grows beyond this many times its budget
_TOKENS_AT_ONCE = 32768


@dataclass(frozen=True)
class Resegmented:
    """One update with the tokens it really has, and its sentences."""

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
    """Spells source, target or both in other pieces in every update.

    A sentence keeps its usual pieces if it had more than `max_pieces` otherwise, or if it
    made its micro-batch larger than twice `budget.tokens_per_micro_batch`.
    """

    source: Segmentations | None
    target: Segmentations | None
    seed: int
    max_pieces: int
    budget: Budget

    @property
    def at_once(self) -> int:
        """Return how many updates to respell at once: one by one is slow, many come late."""
        return max(1, _TOKENS_AT_ONCE // self.budget.tokens_per_update)

    def __call__(
        self, split: Split, steps: Sequence[StepPlan], position: int
    ) -> Iterator[Resegmented]:
        """Respell updates that follow one another, the first at `position` of its epoch."""
        indices = [np.concatenate([b.indices for b in step.micro_batches]) for step in steps]
        keys = [
            self._keys(step, position + place, chosen)
            for place, (step, chosen) in enumerate(zip(steps, indices, strict=True))
        ]
        most = np.concatenate([self._most(step) for step in steps])
        source, target = split.pairs(np.concatenate(indices))
        source, target = self._respell(source, target, np.concatenate(keys, axis=1), most)
        start = 0
        for step, chosen in zip(steps, indices, strict=True):
            rows = slice(start, start + len(chosen))
            yield _counted(step, source[rows], target[rows])
            start = rows.stop

    def _keys(self, step: StepPlan, position: int, indices: Counts) -> Numbers:
        """Return a number for the source and for the target of each pair of an update."""
        seed = np.random.SeedSequence((self.seed, step.epoch, position))
        return mixed(indices.astype(np.uint64) + seed.generate_state(2, np.uint64)[:, None])

    def _most(self, step: StepPlan) -> Counts:
        """Return how many pieces each sentence of an update may have."""
        sizes = np.array([len(batch.indices) for batch in step.micro_batches])
        widest = MOST_GROWTH * self.budget.tokens_per_micro_batch // sizes - END
        return np.repeat(np.minimum(widest, self.max_pieces), sizes)

    def _respell(
        self, source: list[Ids], target: list[Ids], keys: Numbers, most: Counts
    ) -> tuple[list[Ids], list[Ids]]:
        if self.source is self.target:
            both = _respelled(self.source, source + target, keys.ravel(), np.tile(most, 2))
            return both[: len(most)], both[len(most) :]
        return (
            _respelled(self.source, source, keys[0], most),
            _respelled(self.target, target, keys[1], most),
        )


def bpe_dropout_for(
    tokenizers: Tokenizers, batching: Batching, *, seed: int, max_pieces: int
) -> BpeDropout | None:
    """Return what leaves out merges as `batching` says, or None if it keeps them all."""
    if not batching.bpe_dropout:
        return None
    used = {"both": ("source", "target")}.get(
        batching.bpe_dropout_side, (batching.bpe_dropout_side,)
    )
    made: dict[str, Segmentations] = {}
    for side in used:
        if tokenizers.joint and made:
            made[side] = made[used[0]]  # so that they remember together
            continue
        tokenizer = tokenizers.source if side == "source" else tokenizers.target
        merges = merges_of(tokenizer, where="[batching] bpe_dropout")
        made[side] = Segmentations(merges, batching.bpe_dropout, seed)
    return BpeDropout(
        made.get("source"),
        made.get("target"),
        seed,
        max_pieces,
        batching,
    )


def _respelled(
    spellings: Segmentations | None, rows: list[Ids], keys: Numbers, most: Counts
) -> list[Ids]:
    if spellings is None:
        return rows
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    respelled = spellings.respell(RaggedRows(np.concatenate(rows), lengths), keys)
    fits = (respelled.lengths <= most).tolist()
    new = respelled.split()
    return [n if fit else row for n, row, fit in zip(new, rows, fits, strict=True)]


def _counted(step: StepPlan, source: list[Ids], target: list[Ids]) -> Resegmented:
    """Return `step` with these sentences and as many tokens as they have."""
    sizes = np.array([len(batch.indices) for batch in step.micro_batches])
    lengths = np.array([list(map(len, source)), list(map(len, target))]) + END
    widths = np.maximum.reduceat(lengths, np.cumsum(sizes) - sizes, axis=1)
    tokens = lengths.sum(axis=1)
    counted = replace(
        step,
        source_tokens=int(tokens[0]),
        target_tokens=int(tokens[1]),
        positions=int((widths * sizes).sum()),
    )
    return Resegmented(counted, source, target)
