"""One update. Start reading here."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unisono.batching.stream import Batch, PreparedUpdate
from unisono.comm.protocol import Comm, Replica
from unisono.comm.strategies.packed_gather import wait_for_device
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
    """What a step needs; made once, in `train.job`."""

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


STOP_REASONS = ("", "max_time", "signal")  # the last one named wins


@dataclass(frozen=True)
class StepRequests:
    """What this process would like to happen after the update."""

    stop: str = ""
    save: bool = False
    failed: bool = False


@dataclass(frozen=True)
class StepControls:
    """What the run so far has set: factors of the schedule's rate and of the loss."""

    rate_factor: float = 1.0
    loss_scale: float = 1.0


NEUTRAL = StepControls()


@dataclass(frozen=True)
class StepResult:
    """What the update did, and what all processes agreed on. The same on every process."""

    loss: float
    gradient_norm: float
    learning_rate: float
    skipped: bool
    stop: str
    save: bool
    failed_ranks: tuple[int, ...]


def take_step(
    parts: Parts,
    work: PreparedUpdate,
    step: int,
    wishes: StepRequests,
    dials: StepControls = NEUTRAL,
) -> StepResult:
    """Move the weights once, by the mean gradient over all tokens of the plan.

    `work.batches` is this process's share. Losses are divided by the tokens of the whole
    plan, so the update does not depend on how the plan was shared out. All processes learn
    of each other's wishes and troubles in one small message before anyone moves.
    """
    rate = parts.schedule(step) * dials.rate_factor
    with parts.stopwatch.time("exchange"):
        parts.replica.memory.begin(step, dials.loss_scale)
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
        return sums * dials.loss_scale / work.plan.target_tokens

    loss = parts.replica.gradients(work.batches, loss_of, parts.stopwatch)
    with parts.stopwatch.time("backward"):
        wait_for_device(parts.comm.world.device)
    with parts.stopwatch.time("optimizer"):
        _unscale_gradients(parts.replica.module, dials.loss_scale)
        norm = _gradient_norm(parts.replica.module, parts.clip_norm)
    with parts.stopwatch.time("agree"):
        agreed = _agree(parts.comm, float(loss) / dials.loss_scale, float(norm), wishes)
    skipped = agreed.skipped or bool(agreed.failed_ranks)
    if not skipped:
        with parts.stopwatch.time("optimizer"):
            parts.optimizer.step()
    with parts.stopwatch.time("exchange"):
        parts.replica.memory.settle(step, parts.stopwatch, moved=not skipped)
    if not skipped:
        with parts.stopwatch.time("optimizer"):
            parts.averages.update(step)
    if parts.replica.memory.is_last_apart(step):
        come_together(parts)
    return StepResult(
        loss=agreed.loss,
        gradient_norm=float(norm),
        learning_rate=rate,
        skipped=skipped,
        stop=agreed.stop,
        save=agreed.save,
        failed_ranks=agreed.failed_ranks,
    )


def _rate_factor(parts: Parts, *, words: bool) -> float:
    factor = parts.replica.memory.rate_factor(words=words)
    return factor * parts.word_rate if words else factor


def come_together(parts: Parts) -> None:
    """Let all processes have the same weights and the same state of the optimizer."""
    averages, moments = list(parts.averages.live()), live_moments(parts.optimizer)
    with parts.stopwatch.time("exchange"):
        parts.replica.memory.agree(averages, rough=moments)


@dataclass(frozen=True)
class _Agreement:
    loss: float
    skipped: bool
    stop: str
    save: bool
    failed_ranks: tuple[int, ...]


def _agree(comm: Comm, loss: float, norm: float, wishes: StepRequests) -> _Agreement:
    # One gather carries everything: each flag is the maximum over ranks, the loss their sum.
    # It also tells who raised a flag, which a bare maximum would not.
    not_finite = not (abs(loss) < float("inf") and abs(norm) < float("inf"))
    stop = STOP_REASONS.index(wishes.stop)
    mine = [loss, not_finite, stop, wishes.save, wishes.failed]
    rows = comm.gather([float(value) for value in mine])
    return _Agreement(
        loss=sum(row[0] for row in rows),
        skipped=any(row[1] for row in rows),
        stop=STOP_REASONS[int(max(row[2] for row in rows))],
        save=any(row[3] for row in rows),
        failed_ranks=tuple(rank for rank, row in enumerate(rows) if row[4]),
    )


def _on_device(batch: Batch, parts: Parts) -> Batch:
    device = parts.comm.world.device
    if device == "cpu":  # nothing to copy, and perhaps several threads to do it
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

    DDP sums in one order in its first iteration and in another from the second on. Without
    this, a continued run would differ from one that never stopped in its last bits, with
    three processes or more.
    """

    def loss_of(model: nn.Module, batch: Batch) -> Tensor:
        return loss_sums(model, batch.source, batch.target_in, batch.target_out, 0.0)

    replica.gradients([batch], loss_of, stopwatch)
    replica.module.zero_grad()
    stopwatch.lap()
