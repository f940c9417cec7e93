"""Scoring a model on a split, shared out over the processes.

The split is cut into batches that do not depend on the number of processes, and every
sentence's loss and translation travels to all: so each process knows the same scores, and
they are the same however many took part. Each process gets about as much work as any other,
so that nobody waits for long.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
import torch

from unisono.batching.collate import Batch, collate
from unisono.batching.plan import END, Indices, Lengths, fill
from unisono.comm.protocol import Comm
from unisono.corpus.reader import Split
from unisono.models.loss import token_losses
from unisono.models.transformer import TransformerModel
from unisono.text.tokenizer import Tokenizer
from unisono.translate.beam import search
from unisono.translate.settings import Decoding

V = TypeVar("V")

ROWS_OF_A_STEP = 128  # rows whose work is as much as what a step of a search costs by itself


@dataclass(frozen=True, eq=False)
class Examination:
    """What to score a model on. The tokenizer is the target's.

    `pairs` are the numbers of those pairs of the split that are asked for; without, it is all.
    """

    split: Split
    tokenizer: Tokenizer
    tokens_per_batch: int
    decoding: Decoding
    pairs: Indices | None = None

    def __len__(self) -> int:
        return len(self.split) if self.pairs is None else len(self.pairs)

    @property
    def target_tokens(self) -> Lengths:
        """Return the tokens of each target sentence, its end included."""
        return self._lengths(None)[1] + END

    def batch(self, indices: Indices) -> Batch:
        """Return the pairs that are asked for at the places `indices`."""
        return collate(self.split, indices if self.pairs is None else self.pairs[indices])

    def batches(self, sentences: int | None = None) -> list[Indices]:
        """Return batches of all or the first `sentences`, for any number of processes."""
        source, target = self._lengths(sentences)
        longest = int(np.maximum(source, target).max()) + END
        return fill(source, target, max(self.tokens_per_batch, longest))

    def share(self, rank: int, size: int, sentences: int | None = None) -> list[Indices]:
        """Return the batches of `rank` among `size`: like work for all, the longest first."""
        source, target = self._lengths(sentences)
        batches = self.batches(sentences)
        steps = [int(np.maximum(source[b], target[b]).max()) + END for b in batches]
        work = [n * (len(b) + ROWS_OF_A_STEP) for n, b in zip(steps, batches, strict=True)]
        shares: list[list[Indices]] = [[] for _ in range(size)]
        loads = [0] * size
        for number in sorted(range(len(batches)), key=lambda n: -work[n]):
            least = loads.index(min(loads))
            shares[least].append(batches[number])
            loads[least] += work[number]
        return shares[rank]

    def _lengths(self, sentences: int | None) -> tuple[Lengths, Lengths]:
        source, target = self.split.source_lengths, self.split.target_lengths
        if self.pairs is not None:
            source, target = source[self.pairs], target[self.pairs]
        return source[:sentences], target[:sentences]


def spread_evenly(pairs: int, wanted: int) -> Indices:
    """Return the numbers of `wanted` of `pairs`, or of all, at equal distances."""
    count = min(pairs, wanted)
    return np.arange(count, dtype=np.int64) * pairs // max(1, count)


@torch.inference_mode()
def sentence_losses(
    model: TransformerModel, examination: Examination, comm: Comm
) -> list[float]:
    """Return -log p of every target sentence, in the order of the examination."""
    mine: dict[int, float] = {}
    for indices in examination.share(comm.world.rank, comm.world.size):
        batch = examination.batch(indices).to(torch.device(comm.world.device))
        losses = token_losses(model, batch.source, batch.target_in, batch.target_out)
        mine.update(zip(indices.tolist(), losses.double().tolist(), strict=True))
    found = _from_all(comm, mine, float)
    return [found[index] for index in range(len(examination))]


def translations(
    model: TransformerModel,
    examination: Examination,
    comm: Comm,
    sentences: int | None = None,
) -> list[str]:
    """Return the model's translations of all or the first `sentences`, in their order."""
    mine: dict[int, list[int]] = {}
    for indices in examination.share(comm.world.rank, comm.world.size, sentences):
        batch = examination.batch(indices).to(torch.device(comm.world.device))
        found = search([model], batch.source, examination.decoding)
        for index, hypotheses in zip(indices.tolist(), found, strict=True):
            mine[index] = list(hypotheses[0].ids)
    ids = _from_all(comm, mine, list[int])
    return examination.tokenizer.decode([ids[index] for index in sorted(ids)])


def loss_per_token(losses: Sequence[float], examination: Examination) -> tuple[float, int]:
    """Return the mean loss per target token, ends included, and the number of tokens."""
    tokens = int(examination.target_tokens.sum(dtype=np.int64))
    return sum(losses) / tokens, tokens


def _from_all(comm: Comm, mine: dict[int, V], kind: type[V]) -> dict[int, V]:
    """Return the parts of all processes in one dictionary."""
    # Not JSON, which has no word for a loss that is not finite.
    decoder = msgspec.msgpack.Decoder(dict[int, kind])  # type: ignore[valid-type]
    parts = [decoder.decode(part) for part in comm.gather_bytes(msgspec.msgpack.encode(mine))]
    return {index: value for part in parts for index, value in part.items()}
