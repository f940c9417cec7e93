"""Real updates of a run, with nothing exchanged: what a process computes, and how fast."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import nn

from unisono.batching.collate import Batch, collate
from unisono.comm.all_reduce import AllReduce
from unisono.comm.protocol import Comm, Replica, World
from unisono.comm.solo import Solo
from unisono.models.loss import token_losses
from unisono.models.transformer import TransformerModel
from unisono.physics.measured import Update
from unisono.train.loop import Session
from unisono.train.step import Wishes, take_step

ROUND_SECONDS = 1.0
MOST_REPEATS = 50
# Of a large update only so much is computed: the rest follows from its size.
SLICE_SECONDS = 3.0
DRAINED = 12
PARTS = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class NotExchanged:
    """Every process for itself."""

    exact: ClassVar[bool] = False

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        return AllReduce().attach(model, Solo(World(device=comm.world.device)))


class Trial:
    """Takes updates from the beginning of the corpus; its model is thrown away later."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._works = session.stream.from_position(1, 0)
        self._slice = max(1, torch.get_num_threads())
        self._repeats = 1
        self._step = 0
        self.batches: list[int] = []
        self.tokens: list[int] = []
        self.sentences: list[int] = []

    def close(self) -> None:
        """Stop preparing data."""
        self._works.close()  # type: ignore[attr-defined]

    def round(self) -> Update:
        """Take some updates, as many on every process; return the mean of them."""
        parts, watch = self._session.parts, self._session.parts.watch
        watch.lap()
        sums = dict.fromkeys((*PARTS, "other"), 0.0)
        for _ in range(self._repeats):
            scale = self._update()
            seconds, spent = watch.lap()
            for name in PARTS:
                # The optimizer's work does not depend on how much of the update was done.
                sums[name] += spent.get(name, 0.0) * (1.0 if name == "optimizer" else scale)
            known = sum(spent.get(name, 0.0) for name in PARTS)
            sums["other"] += max(0.0, seconds - known)
        mean = Update(**{name: total / self._repeats for name, total in sums.items()})
        slowest = max(row[0] for row in parts.comm.gather([sum(sums.values())]))
        each = slowest / self._repeats
        self._repeats = min(MOST_REPEATS, max(1, round(ROUND_SECONDS / each)))
        return mean

    def _update(self) -> float:
        """Take one update, or a part of it; return how much larger the whole one is."""
        parts = self._session.parts
        with parts.watch.time("data"):
            work = next(self._works)
        self._step += 1
        self.batches.append(len(work.batches))
        self.tokens.append(work.plan.target_tokens)
        self.sentences.append(work.plan.sentences)
        done = work.batches[: self._slice]
        began = time.perf_counter()
        take_step(parts, replace(work, batches=done), self._step, Wishes())
        each = (time.perf_counter() - began) / len(done)
        self._slice = max(1, torch.get_num_threads(), int(SLICE_SECONDS / each))
        return _positions(work.batches) / max(1, _positions(done))

    def loader_seconds(self) -> float:
        """Return how long an update's data take if nobody computes meanwhile."""
        with closing(self._session.stream.from_position(1, 0)) as works:  # type: ignore[type-var]
            began = time.perf_counter()
            for _ in range(DRAINED):
                next(works)
            return (time.perf_counter() - began) / DRAINED

    def evaluation_seconds(self, model: TransformerModel) -> float:
        """Return the time for the losses of the validation set, from one batch of it."""
        valid, comm = self._session.examiner.valid, self._session.parts.comm
        batches = valid.batches()
        batch = collate(valid.split, batches[len(batches) // 2])
        here = batch.to(torch.device(comm.world.device))
        model.eval()
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            with torch.inference_mode():
                token_losses(model, here.source, here.target_in, here.target_out).sum().item()
            seconds.append(time.perf_counter() - began)
        model.train()
        return min(seconds) * len(batches) / comm.world.size


def _positions(batches: Sequence[Batch]) -> int:
    return sum(batch.source.numel() + batch.target_in.numel() for batch in batches)
