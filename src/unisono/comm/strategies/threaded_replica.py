"""One process on a CPU that takes several micro-batches through the model at once.

Threads that each have a micro-batch of their own use the cores better than threads that
share every single product (docs/explanations/model.md says by how much). Each has a twin of
the model: the same weights, but gradients of its own, summed in a fixed order at the end.
"""

import time
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unisono.comm.protocol import Comm, LossOf, Replica, StrategyState
from unisono.comm.strategies.all_reduce import SummedReplica
from unisono.comm.strategies.strategy_state import NoState
from unisono.stopwatch import Stopwatch, Timer
from unisono.thread_lanes import Lanes

MOST_MODEL_LANES = 4  # more have not been tried: all threads share Python's lock


def replica_alone(model: nn.Module, comm: Comm) -> Replica:
    """Return the replica of a process without peers: with lanes, if it has threads."""
    lanes = min(torch.get_num_threads(), MOST_MODEL_LANES)
    if lanes == 1 or not comm.world.device.startswith("cpu"):
        return SummedReplica(model, comm)
    return ThreadedReplica(model, lanes)


class ThreadedReplica:
    """A replica that computes micro-batches in several threads."""

    def __init__(self, model: nn.Module, lanes: int) -> None:
        self.module = model
        self.memory: StrategyState = NoState()
        self._threads = max(1, torch.get_num_threads() // lanes)
        self._twins = [twin_of(model) for _ in range(lanes - 1)]
        self._lanes = Lanes(lanes, partial(torch.set_num_threads, self._threads))

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        count = max(1, min(self._lanes.count, len(batches)))
        models = [self.module, *self._twins[: count - 1]]
        for twin in models[1:]:
            _share_weights(self.module, twin)
        stopwatches = [Stopwatch() for _ in models]
        jobs = [
            partial(_one_after_another, model, batches[lane::count], loss_of, stopwatches[lane])
            for lane, model in enumerate(models)
        ]
        outside, began = torch.get_num_threads(), time.perf_counter()
        if count > 1:
            torch.set_num_threads(self._threads)
        try:
            losses = self._lanes.run(jobs)
        finally:
            torch.set_num_threads(outside)
        for twin in models[1:]:
            _move_gradients(twin, self.module)
        _add_up(stopwatch, time.perf_counter() - began, stopwatches)
        return torch.stack(losses).sum()


def twin_of(model: nn.Module) -> nn.Module:
    """Return a model with the same weights in the same memory, and gradients of its own."""
    known: dict[int, Any] = {id(one): one for one in model.buffers()}
    for weight in model.parameters():
        known[id(weight)] = nn.Parameter(weight.data, requires_grad=weight.requires_grad)
    return deepcopy(model, known)


def _share_weights(model: nn.Module, twin: nn.Module) -> None:
    # Averaging or loading weights may have replaced them in the meantime.
    for mine, its in zip(model.parameters(), twin.parameters(), strict=True):
        its.data = mine.data


def _one_after_another(
    model: nn.Module, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
) -> Tensor:
    total = torch.zeros(())
    for batch in batches:
        with stopwatch.time("forward"):
            loss = loss_of(model, batch)
        with stopwatch.time("backward"):
            loss.backward()
        total += loss.detach()
    return total


def _move_gradients(twin: nn.Module, model: nn.Module) -> None:
    for its, mine in zip(twin.parameters(), model.parameters(), strict=True):
        if mine.grad is None:
            mine.grad = its.grad
        elif its.grad is not None:
            mine.grad += its.grad
        its.grad = None


def _add_up(stopwatch: Stopwatch, seconds: float, stopwatches: Sequence[Stopwatch]) -> None:
    """Split the time of all lanes into forward and backward, as they spent it."""
    parts = [one.lap()[1] for one in stopwatches]
    timers: tuple[Timer, ...] = ("forward", "backward")
    sums = {timer: sum(part.get(timer, 0.0) for part in parts) for timer in timers}
    whole = sum(sums.values())
    for timer, part in sums.items():
        stopwatch.add(timer, seconds * part / whole if whole else 0.0)
