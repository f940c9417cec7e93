"""The updates of a run from any position on, prepared ahead by a thread of their own."""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from unisono.batching.collate import Batch, collate, nothing_to_learn
from unisono.batching.plan import EpochPlan, StepPlan, plan_epoch
from unisono.batching.settings import Budget
from unisono.batching.sources import Source
from unisono.corpus.reader import Split

AHEAD = 8


@dataclass(frozen=True)
class Work:
    """One update: the whole plan, and this process's share of it as tensors."""

    plan: StepPlan
    position: int
    updates_in_epoch: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Stream:
    """Where the updates of one process come from. Positions count updates within an epoch."""

    split: Split
    budget: Budget
    seed: int
    rank: int = 0
    size: int = 1
    _planned: dict[int, EpochPlan] = field(default_factory=dict, repr=False, compare=False)

    def updates_per_epoch(self) -> int:
        """Return how many updates one pass over the corpus makes."""
        return len(self._plan(epoch=1))

    def from_position(self, epoch: int, position: int) -> Iterator[Work]:
        """Yield updates without end, beginning with number `position` of `epoch`."""
        return _ahead(self._works(epoch, position))

    def _works(self, epoch: int, position: int) -> Iterator[Work]:
        while True:
            plan = self._plan(epoch)
            for place in range(position, len(plan)):
                step = plan[place]
                yield Work(step, place, len(plan), self._batches(step))
            epoch, position = epoch + 1, 0

    def _plan(self, epoch: int) -> EpochPlan:
        plan = self._planned.get(epoch)
        if plan is None:
            lengths = self.split.source_lengths, self.split.target_lengths
            plan = plan_epoch(
                *lengths,
                self.budget,
                seed=self.seed,
                epoch=epoch,
                sources=[Source(block.pairs, block.weight) for block in self.split.blocks],
            )
            self._planned.clear()
            self._planned[epoch] = plan
        return plan

    def _batches(self, step: StepPlan) -> tuple[Batch, ...]:
        mine = step.share(self.rank, self.size)
        made = (collate(self.split, batch.indices, batch.number) for batch in mine)
        return tuple(made) or (nothing_to_learn(),)


def _ahead(works: Iterator[Work]) -> Iterator[Work]:
    """Yield from `works`, which a thread keeps up to AHEAD items in front."""
    ready: queue.Queue[Work | BaseException] = queue.Queue(maxsize=AHEAD)
    stop = threading.Event()
    thread = threading.Thread(target=_feed, args=(works, ready, stop), daemon=True)
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
    works: Iterator[Work], ready: "queue.Queue[Work | BaseException]", stop: threading.Event
) -> None:
    item: Work | BaseException
    while not stop.is_set():
        try:
            item = next(works)
        except BaseException as error:  # noqa: BLE001  the reader raises it where it is asked for
            item = error
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                break
            except queue.Full:
                continue
        if isinstance(item, BaseException):
            return
