"""One update of the weights. Start reading here."""

from dataclasses import dataclass, field
from math import isfinite

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unisono.batching.stream import Batch, PreparedUpdate
from unisono.comm.protocol import Comm, Replica
from unisono.models.output import loss_sums
from unisono.optim.build import EMBEDDINGS
from unisono.schedules import Schedule
from unisono.stopwatch import Stopwatch
from unisono.train.averages import Averages
from unisono.train.checkpoints.state import live_moments
from unisono.train.precision import Precision
from unisono.train.process_setup import set_randomness


@dataclass(frozen=True)
class Parts:
    """What a step needs; `train.build` makes it once."""

    replica: Replica
    comm: Comm
    optimizer: Optimizer
    schedule: Schedule
    seed: int
    label_smoothing: float
    clip_norm: float = 0.0
    word_rate: float = 1.0
    averages: Averages = field(default_factory=Averages)
    precision: Precision = field(default_factory=Precision)
    stopwatch: Stopwatch = field(default_factory=Stopwatch)


SAVE, WRITTEN = 1, 2  # bits of one number in the message of an update
STOP_REASONS = ("", "max_time", "signal")  # if processes differ, the later one wins


@dataclass(frozen=True)
class StepRequests:
    """What this process asks all processes to do after the update.

    `written` says that the save under way is over.
    """

    stop: str = ""
    save: bool = False
    written: bool = False
    failed: bool = False


@dataclass(frozen=True)
class StepControls:
    """What the run so far has set: factors for the schedule's rate and for the loss."""

    rate_factor: float = 1.0
    loss_scale: float = 1.0


NEUTRAL = StepControls()


@dataclass(frozen=True)
class StepResult:
    """What the update did and what all processes agreed on; the same on every process."""

    loss: float
    gradient_norm: float
    learning_rate: float
    skipped: bool
    stop: str
    save: bool
    written: bool
    failed_ranks: tuple[int, ...]


def take_step(
    parts: Parts,
    work: PreparedUpdate,
    step: int,
    requests: StepRequests,
    controls: StepControls = NEUTRAL,
) -> StepResult:
    """Update the weights once, by the mean gradient over all tokens of the plan.

    `work.batches` is this process's share. Losses are divided by the tokens of the whole
    plan, so the update does not depend on how the plan was shared out. Before the weights
    change, one small message tells every process about the requests and failures of all.
    """
    rate = parts.schedule(step) * controls.rate_factor
    with parts.stopwatch.time("exchange"):
        parts.replica.memory.begin(step, controls.loss_scale)
    with parts.stopwatch.time("optimizer"):
        for group in parts.optimizer.param_groups:
            group["lr"] = rate * _rate_factor(parts, words=group.get(EMBEDDINGS, False))
        parts.optimizer.zero_grad()

    def loss_of(model: nn.Module, batch: Batch) -> Tensor:
        set_randomness(parts.seed, work.plan.epoch, step, batch.number)
        here = _on_device(batch, parts)
        with parts.precision.autocast():
            sums = loss_sums(
                model, here.source, here.target_in, here.target_out, parts.label_smoothing
            )
        return sums * controls.loss_scale / work.plan.target_tokens

    with parts.precision.casting_once():
        loss = parts.replica.gradients(work.batches, loss_of, parts.stopwatch)
    with parts.stopwatch.time("optimizer"):
        _unscale_gradients(parts.replica.module, controls.loss_scale)
        norm = _gradient_norm(parts.replica.module, parts.clip_norm)
    with parts.stopwatch.time("agree"):
        result = _agree(parts.comm, loss / controls.loss_scale, norm, rate, requests)
        parts.stopwatch.synchronized()
    if not result.skipped:
        with parts.stopwatch.time("optimizer"):
            parts.optimizer.step()
    with parts.stopwatch.time("exchange"):
        parts.replica.memory.settle(step, parts.stopwatch, moved=not result.skipped)
    if not result.skipped:
        with parts.stopwatch.time("optimizer"):
            parts.averages.update(step)
    if parts.replica.memory.is_last_apart(step):
        synchronize_weights(parts)
    return result


def _rate_factor(parts: Parts, *, words: bool) -> float:
    factor = parts.replica.memory.rate_factor(words=words)
    return factor * parts.word_rate if words else factor


def synchronize_weights(parts: Parts) -> None:
    """Give all processes the same weights and the same optimizer state."""
    averages, moments = list(parts.averages.live()), live_moments(parts.optimizer)
    with parts.stopwatch.time("exchange"):
        parts.replica.memory.agree(averages, rough=moments)


def _agree(
    comm: Comm, loss: Tensor, norm: Tensor, rate: float, requests: StepRequests
) -> StepResult:
    # One gather carries everything: a flag is the maximum over ranks, the loss their sum.
    # Unlike a reduction to the maximum, it also shows which rank raised a flag.
    stop = float(STOP_REASONS.index(requests.stop))
    saves = float(SAVE * requests.save + WRITTEN * requests.written)
    rows = comm.gather([loss, norm, stop, saves, float(requests.failed)])
    return StepResult(
        loss=sum(row[0] for row in rows),
        gradient_norm=rows[comm.world.rank][1],
        learning_rate=rate,
        skipped=any(row[4] or not all(map(isfinite, row[:2])) for row in rows),
        stop=STOP_REASONS[int(max(row[2] for row in rows))],
        save=any(int(row[3]) & SAVE for row in rows),
        written=any(int(row[3]) & WRITTEN for row in rows),
        failed_ranks=tuple(rank for rank, row in enumerate(rows) if row[4]),
    )


def _on_device(batch: Batch, parts: Parts) -> Batch:
    device = parts.comm.world.device
    if device == "cpu":  # nothing to copy, and several threads may come here
        return batch
    with parts.stopwatch.time("copy"):
        return batch.to(torch.device(device))


def _unscale_gradients(model: nn.Module, scale: float) -> None:
    if scale != 1.0:
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, 1 / scale)


def _gradient_norm(model: nn.Module, clip_norm: float) -> Tensor:
    weights = [p for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in weights if p.grad is not None])
    if clip_norm:
        torch.nn.utils.clip_grads_with_norm_(weights, clip_norm, norm)
    return norm


def warm_up(replica: Replica, batch: Batch, stopwatch: Stopwatch) -> None:
    """Exchange gradients once without an update.

    DDP sums gradients in one order in its first iteration and in another order afterwards.
    Without this, a continued run of three processes or more would differ in its last bits
    from a run that never stopped.
    """

    def loss_of(model: nn.Module, batch: Batch) -> Tensor:
        return loss_sums(model, batch.source, batch.target_in, batch.target_out, 0.0)

    replica.gradients([batch], loss_of, stopwatch)
    replica.module.zero_grad()
    stopwatch.lap()
