"""PyTorch's DistributedDataParallel: it sends gradients during the backward pass."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket

from unisono.comm.device_stopwatch import event_now, seconds_between
from unisono.comm.protocol import Comm, LossOf, Replica, StrategyState
from unisono.comm.settings import Sync
from unisono.comm.strategies.lean_ddp import lean_ddp
from unisono.comm.strategies.strategy_state import NoState
from unisono.comm.strategies.threaded_replica import replica_alone
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.stopwatch import Stopwatch, Timer

EventSpan = tuple[torch.cuda.Event, torch.cuda.Event]
Send = Callable[[GradBucket], torch.futures.Future[Tensor]]


@dataclass(frozen=True)
class Ddp:
    """Overlap the gradient exchange with the backward pass."""

    bucket_mb: float = USUAL_BUCKET_MB

    @classmethod
    def from_settings(cls, sync: Sync, max_steps: int, *, adaptive: bool) -> Self:
        return cls(sync.bucket_mb or USUAL_BUCKET_MB)

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        if comm.world.size == 1:
            return replica_alone(model, comm)
        return DdpReplica(model, comm, self.bucket_mb)


def sum_bucket(
    bucket: GradBucket, group: dist.ProcessGroup | None = None
) -> torch.futures.Future[Tensor]:
    """Sum a bucket over all processes, or those of `group` (DDP would take the mean)."""
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])  # type: ignore[no-any-return]


def completed(total: Tensor) -> torch.futures.Future[Tensor]:
    """Return a future whose result is `total`."""
    future: torch.futures.Future[Tensor] = torch.futures.Future()
    future.set_result(total)
    return future


class DdpReplica:
    """A replica whose gradients DDP exchanges, bucket by bucket."""

    def __init__(
        self,
        model: nn.Module,
        comm: Comm,
        bucket_mb: float,
        send: Send = sum_bucket,
        memory: StrategyState | None = None,
    ) -> None:
        """Let `send` make the sum of a bucket; `memory` is what it keeps."""
        self.module, self._comm = model, comm
        self.memory = memory or NoState()
        self._wrapped = lean_ddp(
            model,
            bucket_cap_mb=bucket_mb,
            gradient_as_bucket_view=True,
            init_sync=False,  # it would send all weights; the trainer has done that
        )
        # DDP keeps the state of its hook. If that were the replica, which keeps DDP, neither
        # would ever be freed, and a process group still in use at exit aborts the process.
        self._sender = _Sender(send, on_gpu=comm.world.device.startswith("cuda"))
        self._wrapped.register_comm_hook(self._sender, _send_bucket)

    def ends_with(self, weight: nn.Parameter) -> None:
        """Note a weight in no bucket whose gradient is ready after all others."""
        weight.register_post_accumulate_grad_hook(partial(_note_last, self._sender))

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        total = torch.zeros((), device=self._comm.world.device)
        for number, batch in enumerate(batches, start=1):
            last = number == len(batches)
            # The forward pass belongs inside no_sync too: DDP decides there, not in
            # backward, whether this pass will exchange gradients.
            with nullcontext() if last else self._wrapped.no_sync():
                with stopwatch.time("forward"):
                    loss = loss_of(self._wrapped, batch)
                self._backward(loss, stopwatch, exchanges=last)
            total += loss.detach()
        return total

    def _backward(self, loss: Tensor, stopwatch: Stopwatch, *, exchanges: bool) -> None:
        sender = self._sender
        sender.forget()
        if sender.on_gpu:
            self._backward_on_gpu(loss, stopwatch, exchanges=exchanges)
            return
        began = time.perf_counter()
        loss.backward()
        exposed = sender.exposed() if exchanges else 0.0
        ended = time.perf_counter()
        stopwatch.add("backward", ended - exposed - began)
        stopwatch.add("exchange", exposed)
        if exchanges:
            stopwatch.add("hidden", covered(sender.under_way, until=ended - exposed))

    def _backward_on_gpu(self, loss: Tensor, stopwatch: Stopwatch, *, exchanges: bool) -> None:
        with stopwatch.time("backward"):
            loss.backward()
        if exchanges and (last := self._sender.last_event) is not None:
            spans, summed = tuple(self._sender.events_under_way), event_now()
            stopwatch.later(lambda: _exposed_and_hidden(last, summed, spans))


class _Sender:
    """Sends buckets, and records when each was ready and how long its exchange took.

    The last bucket is ready when the last gradient is, unless a weight is in no bucket: what
    follows is only waiting.
    """

    def __init__(self, send: Send, *, on_gpu: bool) -> None:
        self.send, self.on_gpu = send, on_gpu
        self.last_ready = self.busy = self.busy_before = 0.0
        self.under_way: list[tuple[float, float]] = []
        self.last_event: torch.cuda.Event | None = None
        self.events_under_way: list[EventSpan] = []

    def forget(self) -> None:
        """Begin another backward pass."""
        self.busy, self.last_event = 0.0, None
        self.under_way.clear()
        self.events_under_way.clear()

    def note_ready(self) -> None:
        """Note that a bucket is ready; a GPU records an event for that."""
        self.last_ready, self.busy_before = time.perf_counter(), self.busy
        if self.on_gpu:
            self.last_event = event_now()

    def exposed(self) -> float:
        """Return the seconds since the last gradient, in which it waited for the last sum."""
        # The time this thread spent sending earlier buckets was not computing either.
        return time.perf_counter() - (self.last_ready - self.busy_before)

    def note_summed(self, began: float, issued: torch.cuda.Event | None) -> None:
        """Note that a bucket is summed; a GPU records an event for that.

        The future of a GPU's sum is ready at once. Its callback runs on a stream of its own,
        which waits for the exchange; so does an event recorded there.
        """
        if issued is None:
            self.under_way.append((began, time.perf_counter()))
        else:
            self.events_under_way.append((issued, event_now()))


def _exposed_and_hidden(
    last: torch.cuda.Event, summed: torch.cuda.Event, under_way: Sequence[EventSpan]
) -> list[tuple[Timer, float]]:
    """Return what of a GPU's backward pass was exchange, and for how long it hid others."""
    exposed = seconds_between(last, summed)
    found: list[tuple[Timer, float]] = [("exchange", exposed), ("backward", -exposed)]
    if under_way:
        zero = under_way[0][0]
        spans = [(seconds_between(zero, a), seconds_between(zero, b)) for a, b in under_way]
        found.append(("hidden", covered(spans, until=seconds_between(zero, last))))
    return found


def _send_bucket(sender: _Sender, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    sender.note_ready()
    began, issued = sender.last_ready, sender.last_event

    def note(future: torch.futures.Future[Tensor]) -> Tensor:
        sender.note_summed(began, issued)
        return future.value()

    future = sender.send(bucket).then(note)
    sender.busy += time.perf_counter() - began
    return future


def _note_last(sender: _Sender, weight: Tensor) -> None:
    sender.note_ready()


def covered(spans: Sequence[tuple[float, float]], until: float) -> float:
    """Return the time before `until` that lies within any of the spans."""
    total, reached = 0.0, float("-inf")
    for began, ended in sorted(spans):
        end = min(ended, until)
        total += max(0.0, end - max(began, reached))
        reached = max(reached, end)
    return total
