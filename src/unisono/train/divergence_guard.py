"""Detects divergence. Pure: the same losses give the same answer on every process.

The median of the last `SMOOTHED_LOSSES` values smooths the loss, so that a single bad batch
does not move it. The run has diverged when the smoothed loss is above its recent minimum by
the largest of six deviations of the noise, a fifth, and half a nat. The differences of
earlier neighbouring losses measure the noise, so that neither the fall of the loss at the
start nor the rise itself counts as noise. The minimum rises slowly: a loss that climbs a
little over thousands of updates comes from the data.

A run may also explode in its very first updates. The first loss, that of the untrained model,
therefore counts as a minimum, and twice that loss is too much whatever the noise.
"""

import math
from itertools import pairwise
from statistics import median

import msgspec

SMOOTHED_LOSSES = 16
LOSS_WINDOW = 128
EARLIEST = 2 * SMOOTHED_LOSSES  # losses needed before anything counts as a rise
DEVIATIONS, SHARE, NATS = 6.0, 0.2, 0.5
LEAK = 2000  # updates over which the minimum fades
CEILING = 2.0  # times the loss of the untrained model
SKIPS = 10
MARGIN = SMOOTHED_LOSSES  # a rise that began before a save shows within this many updates

NO_CHECKPOINT = (0, 0)
ROLL_BACKS = 3
RATE_FACTOR = 0.5


class Guard(msgspec.Struct, frozen=True):
    """The recent losses of a run, and which of its checkpoints is known to be good.

    `safe` holds the step of a checkpoint after which the run stayed calm for `MARGIN` updates,
    and the step of the best checkpoint at that time; 0 is the start of the run. `next_safe`
    holds those of a newer checkpoint that is not proven yet. None of them may be removed.
    """

    losses: tuple[float, ...] = ()
    low: float = 0.0
    untrained: float = 0.0
    skips: int = 0
    calm: int = 0
    safe: tuple[int, int] = (0, 0)
    next_safe: tuple[int, int] = (0, 0)


def observe(guard: Guard, step: int, loss: float, *, skipped: bool) -> tuple[Guard, str]:
    """Return the guard after update `step`, and why the run has diverged, or ""."""
    if skipped or not math.isfinite(loss):
        guard = msgspec.structs.replace(guard, skips=guard.skips + 1, calm=0)
        return guard, _many_skips(guard)
    losses = (*guard.losses, loss)[-LOSS_WINDOW:]
    smoothed = median(losses[-SMOOTHED_LOSSES:])
    known = len(guard.losses) >= SMOOTHED_LOSSES
    low = min(smoothed, guard.low + (smoothed - guard.low) / LEAK) if known else losses[0]
    rise = _allowed_rise(losses, low)
    guard = msgspec.structs.replace(
        guard,
        losses=losses,
        low=low,
        untrained=guard.untrained if guard.losses else loss,
        skips=0,
        calm=guard.calm + 1 if smoothed <= low + rise / 2 else 0,
    )
    too_high = smoothed > low + rise or 0 < CEILING * guard.untrained < smoothed
    if len(losses) >= EARLIEST and too_high:
        return guard, f"the training loss rose from {low:.3f} to {smoothed:.3f}"
    return _with_proven(guard, step), ""


def after_save(guard: Guard, step: int, best_step: int) -> Guard:
    """Return the guard after the checkpoint of `step` was saved."""
    if guard.next_safe != NO_CHECKPOINT:
        return guard
    return msgspec.structs.replace(guard, next_safe=(step, best_step))


def after_failed_save(guard: Guard, step: int, before: Guard) -> Guard:
    """Return the guard of a run whose save of `step` failed; `before` is that before the save.

    Updates have been made since, and may have proven the checkpoint that is not there.
    """
    safe = before.safe if guard.safe[0] == step else guard.safe
    following = NO_CHECKPOINT if guard.next_safe[0] == step else guard.next_safe
    return msgspec.structs.replace(guard, safe=safe, next_safe=following)


def after_roll_back(guard: Guard, step: int, best_step: int) -> Guard:
    """Return the guard of a run that went back to the checkpoint of `step`."""
    return msgspec.structs.replace(
        guard, safe=(step, best_step), next_safe=NO_CHECKPOINT, skips=0
    )


def _many_skips(guard: Guard) -> str:
    if guard.skips < SKIPS:
        return ""
    return f"{guard.skips} updates in a row were not finite"


def _allowed_rise(losses: tuple[float, ...], low: float) -> float:
    changes = [abs(after - before) for before, after in pairwise(losses[:-SMOOTHED_LOSSES])]
    # 1.4826 median deviations are a standard deviation, and differences have sqrt(2) of it.
    noise = 1.4826 / math.sqrt(2) * median(changes) if changes else 0.0
    return max(DEVIATIONS * noise, SHARE * abs(low), NATS)


def _with_proven(guard: Guard, step: int) -> Guard:
    since = step - guard.next_safe[0]
    if guard.next_safe == NO_CHECKPOINT or min(since, guard.calm) < MARGIN:
        return guard
    return msgspec.structs.replace(guard, safe=guard.next_safe, next_safe=NO_CHECKPOINT)
