"""Scoring a model on a split, shared out over the processes.

The split is cut into batches that do not depend on the number of processes, and every
sentence's loss and translation travels to all: so each process knows the same scores, and
they are the same however many took part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
import torch

from unisono.batching.collate import collate
from unisono.batching.plan import Indices, fill
from unisono.comm.protocol import Comm
from unisono.corpus.reader import Split
from unisono.models.loss import token_losses
from unisono.models.transformer import TransformerModel
from unisono.text.tokenizer import Tokenizer
from unisono.translate.beam import search
from unisono.translate.settings import Decoding

V = TypeVar("V")


@dataclass(frozen=True)
class Examination:
    """What to score a model on. The tokenizer is the target's."""

    split: Split
    tokenizer: Tokenizer
    tokens_per_batch: int
    decoding: Decoding

    def batches(self) -> list[Indices]:
        """Return the batches, the same for any number of processes."""
        lengths = self.split.source_lengths, self.split.target_lengths
        longest = max(int(side.max()) + 1 for side in lengths)
        return fill(*lengths, max(self.tokens_per_batch, longest))


@torch.inference_mode()
def sentence_losses(
    model: TransformerModel, examination: Examination, comm: Comm
) -> list[float]:
    """Return -log p of every target sentence, in the order of the split."""
    mine: dict[int, float] = {}
    for indices in examination.batches()[comm.world.rank :: comm.world.size]:
        batch = collate(examination.split, indices).to(torch.device(comm.world.device))
        losses = token_losses(model, batch.source, batch.target_in, batch.target_out)
        mine.update(zip(indices.tolist(), losses.double().tolist(), strict=True))
    found = _from_all(comm, mine, float)
    return [found[index] for index in range(len(examination.split))]


def translations(model: TransformerModel, examination: Examination, comm: Comm) -> list[str]:
    """Return the model's translation of every source sentence, in the order of the split."""
    mine: dict[int, list[int]] = {}
    for indices in examination.batches()[comm.world.rank :: comm.world.size]:
        batch = collate(examination.split, indices).to(torch.device(comm.world.device))
        found = search(model, batch.source, examination.decoding)
        for index, hypotheses in zip(indices.tolist(), found, strict=True):
            mine[index] = list(hypotheses[0].ids)
    ids = _from_all(comm, mine, list[int])
    return examination.tokenizer.decode([ids[i] for i in range(len(examination.split))])


def loss_per_token(losses: Sequence[float], split: Split) -> tuple[float, int]:
    """Return the mean loss per target token, ends included, and the number of tokens."""
    tokens = int(split.target_lengths.astype(np.int64).sum()) + len(split)
    return sum(losses) / tokens, tokens


def _from_all(comm: Comm, mine: dict[int, V], kind: type[V]) -> dict[int, V]:
    """Return the parts of all processes in one dictionary."""
    # Not JSON, which has no word for a loss that is not finite.
    decoder = msgspec.msgpack.Decoder(dict[int, kind])  # type: ignore[valid-type]
    parts = [decoder.decode(part) for part in comm.gather_bytes(msgspec.msgpack.encode(mine))]
    return {index: value for part in parts for index, value in part.items()}
