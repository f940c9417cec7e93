"""Pairs of ids to padded tensors.

Shapes: B sentences, S source positions, T target positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unisono.batching.plan import Indices
from unisono.corpus.reader import Split
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID

Ids = NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Batch:
    """A micro-batch as tensors. `number` is its place within the update, on any process."""

    number: int
    source: Tensor  # (B, S), each row ends with END_ID, then padding
    target_in: Tensor  # (B, T), each row begins with BEGIN_ID
    target_out: Tensor  # (B, T), each row ends with END_ID

    @property
    def positions(self) -> int:
        """Return how many positions are computed, source and target, padding included."""
        return self.source.numel() + self.target_in.numel()

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on `device`."""
        return Batch(
            self.number,
            self.source.to(device, non_blocking=True),
            self.target_in.to(device, non_blocking=True),
            self.target_out.to(device, non_blocking=True),
        )


def collate(split: Split, indices: Indices, number: int = 0) -> Batch:
    """Return the pairs at `indices` as a batch."""
    return batch_of(*split.pairs(indices), number)


def batch_of(sources: Sequence[Ids], targets: Sequence[Ids], number: int = 0) -> Batch:
    """Return sentences and their translations as a batch."""
    return Batch(
        number,
        source=pad(sources, end=True),
        target_in=pad(targets, begin=True),
        target_out=pad(targets, end=True),
    )


def pad(rows: Sequence[Ids], *, begin: bool = False, end: bool = False) -> Tensor:
    """Return `rows` as one tensor, filled up with padding, with begin or end added."""
    shift = int(begin)
    width = max(len(row) for row in rows) + shift + int(end)
    table = np.full((len(rows), width), PADDING_ID, dtype=np.int64)
    if begin:
        table[:, 0] = BEGIN_ID
    for row, ids in zip(table, rows, strict=True):
        row[shift : shift + len(ids)] = ids
        if end:
            row[shift + len(ids)] = END_ID
    return torch.from_numpy(table)


def nothing_to_learn(number: int = 0) -> Batch:
    """Return a batch without target tokens: its loss and its gradients are zero.

    A process whose share of an update is empty takes part in the exchange with it.
    """
    return Batch(
        number,
        source=torch.tensor([[END_ID]]),
        target_in=torch.tensor([[BEGIN_ID]]),
        target_out=torch.tensor([[PADDING_ID]]),
    )
