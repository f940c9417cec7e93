"""The updates of a run as padded tensors, from any position on, prefetched by a thread.

Shapes: B sentences, S source positions, T target positions.
"""

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unisono.batching.bpe_dropout import BpeDropout
from unisono.batching.plan import (
    END,
    CorpusSource,
    EpochPlan,
    Indices,
    StepPlan,
    apply_temperature,
    plan_epoch,
)
from unisono.batching.settings import Budget
from unisono.corpus.reader import Split
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID

Ids = NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Batch:
    """A micro-batch as tensors. `number` is its place in the update, on whatever process."""

    number: int
    source: Tensor  # (B, S), each row ends with END_ID, then padding
    target_in: Tensor  # (B, T), each row begins with BEGIN_ID
    target_out: Tensor  # (B, T), each row ends with END_ID

    @property
    def positions(self) -> int:
        """Return how many positions are computed, source and target, padding included."""
        return self.source.numel() + self.target_in.numel()

    def pinned(self) -> "Batch":
        """Return the batch in memory from which a GPU copies while the host goes on."""
        tensors = (self.source, self.target_in, self.target_out)
        return Batch(self.number, *(tensor.pin_memory() for tensor in tensors))

    def to(self, device: torch.device) -> "Batch":
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
    """Return `rows` as one tensor, padded, with the begin or end id added."""
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


def empty_batch(number: int = 0) -> Batch:
    """Return a batch without target tokens: its loss and its gradients are zero.

    With it a process whose share of an update is empty takes part in the exchange.
    """
    return Batch(
        number,
        source=torch.tensor([[END_ID]]),
        target_in=torch.tensor([[BEGIN_ID]]),
        target_out=torch.tensor([[PADDING_ID]]),
    )


PREFETCHED_UPDATES = 8

Placed = tuple[
    int, StepPlan, tuple[Batch, ...]
]  # the place in the epoch, the plan, its batches


@dataclass(frozen=True)
class PreparedUpdate:
    """One update: the whole plan, and this process's share of it as tensors."""

    plan: StepPlan
    position: int
    updates_in_epoch: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Stream:
    """The updates of one process. Positions count updates within an epoch.

    `temperature` decides how the sources of the split are mixed; `bpe_dropout`, if there is
    one, resegments the sentences. Batches for a GPU are in pinned memory.
    """

    split: Split
    budget: Budget
    seed: int
    rank: int = 0
    size: int = 1
    temperature: float = 1.0
    bpe_dropout: BpeDropout | None = None
    device: str = "cpu"
    _planned: dict[int, EpochPlan] = field(default_factory=dict, repr=False, compare=False)

    def updates_in(self, epoch: int) -> int:
        """Return how many updates this epoch has; with weights it varies."""
        return len(self._plan(epoch))

    def sources(self) -> list[CorpusSource]:
        """Return the sources of the split, with how often an epoch uses their pairs."""
        blocks = [CorpusSource(block.pairs, block.weight) for block in self.split.blocks]
        return apply_temperature(blocks, self.temperature)

    def from_position(self, epoch: int, position: int) -> Iterator[PreparedUpdate]:
        """Yield updates without end, starting at `position` of `epoch`."""
        return _prefetch(self._updates(epoch, position))

    def _updates(self, epoch: int, position: int) -> Iterator[PreparedUpdate]:
        on_gpu = self.device.startswith("cuda")
        if on_gpu:
            torch.cuda.set_device(self.device)  # of this thread, whose default is the first
        while True:
            plan = self._plan(epoch)
            for place, step, made in self._placed(plan, position):
                batches = made or (empty_batch(),)
                if on_gpu:
                    batches = tuple(batch.pinned() for batch in batches)
                yield PreparedUpdate(step, place, len(plan), batches)
            epoch, position = epoch + 1, 0

    def _plan(self, epoch: int) -> EpochPlan:
        plan = self._planned.get(epoch)
        if plan is None:
            lengths = self.split.source_lengths, self.split.target_lengths
            plan = plan_epoch(
                *lengths, self.budget, seed=self.seed, epoch=epoch, sources=self.sources()
            )
            self._planned.clear()
            self._planned[epoch] = plan
        return plan

    def _placed(self, plan: EpochPlan, position: int) -> Iterator[Placed]:
        """Yield the updates of an epoch from `position` on, and this process's batches."""
        if self.bpe_dropout is None:
            for place in range(position, len(plan)):
                step = plan[place]
                mine = step.share(self.rank, self.size)
                yield place, step, tuple(collate(self.split, b.indices, b.number) for b in mine)
            return
        for start in range(position, len(plan), self.bpe_dropout.updates_at_once):
            end = min(start + self.bpe_dropout.updates_at_once, len(plan))
            steps = [plan[place] for place in range(start, end)]
            resegmented = self.bpe_dropout(self.split, steps, start)
            for place, new in enumerate(resegmented, start=start):
                mine = new.step.share(self.rank, self.size)
                yield place, new.step, tuple(batch_of(*new.pairs(b), b.number) for b in mine)


def _prefetch(updates: Iterator[PreparedUpdate]) -> Iterator[PreparedUpdate]:
    """Yield from `updates`, which a thread computes up to PREFETCHED_UPDATES ahead."""
    ready: queue.Queue[PreparedUpdate | BaseException] = queue.Queue(maxsize=PREFETCHED_UPDATES)
    stop = threading.Event()
    thread = threading.Thread(target=_feed, args=(updates, ready, stop), daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join(timeout=10)


def _feed(
    updates: Iterator[PreparedUpdate],
    ready: "queue.Queue[PreparedUpdate | BaseException]",
    stop: threading.Event,
) -> None:
    item: PreparedUpdate | BaseException
    while not stop.is_set():
        try:
            item = next(updates)
        except BaseException as error:  # noqa: BLE001  the consumer raises it
            item = error
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                break
            except queue.Full:
                continue
        if isinstance(item, BaseException):
            return


def longest(stream: Stream) -> Batch:
    """Return a micro-batch of the longest sentences: attention takes the more of them."""
    longer = np.maximum(stream.split.source_lengths, stream.split.target_lengths) + END
    rows = max(1, stream.budget.tokens_per_micro_batch // int(longer.max()))
    return collate(stream.split, np.argsort(longer, kind="stable")[-rows:])
