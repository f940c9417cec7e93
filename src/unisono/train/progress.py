"""How far a run is: all it needs, in addition to the tensors, to continue exactly.

Also what is due after an update. Pure: the same answer on every process.
"""

import math

import msgspec

from unisono.config.settings import Settings
from unisono.train.divergence_guard import RATE_FACTOR, Guard, after_roll_back
from unisono.train.precision import LossScale


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A position in a run. `position` counts the updates already made in `epoch`.

    After a roll-back it is ahead of `step`: this epoch does not use the data of the undone
    updates again. `rate_factor` multiplies the schedule's rate.
    """

    format: int = 1
    step: int = 0
    epoch: int = 1
    position: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    best_step: int = 0
    best_score: float = 0.0
    best_loss: float = 0.0
    best_bleu: float = -1.0
    validations_since_best: int = 0
    last_validated: int = 0
    rate_factor: float = 1.0
    roll_backs: int = 0
    guard: Guard = Guard()
    loss_scale: LossScale = LossScale()


def after_update(
    progress: Progress, *, epoch: int, position: int, tokens: int, seconds: float
) -> Progress:
    """Return the progress after the update at `position` (counted from 0) of `epoch`."""
    return msgspec.structs.replace(
        progress,
        step=progress.step + 1,
        epoch=epoch,
        position=position + 1,
        target_tokens=progress.target_tokens + tokens,
        seconds=progress.seconds + seconds,
    )


def after_validation(
    progress: Progress, *, loss: float, bleu: float, by: str, seconds: float, chrf: float = -1.0
) -> Progress:
    """Return the progress after a validation; the higher score is the better one.

    A score that is not finite is never the best.
    """
    score = {"bleu": bleu, "chrf": chrf}.get(by, -loss)
    progress = msgspec.structs.replace(
        progress, last_validated=progress.step, seconds=progress.seconds + seconds
    )
    better = not progress.best_step or score > progress.best_score
    if not (better and math.isfinite(score) and math.isfinite(loss)):
        since = progress.validations_since_best + 1
        return msgspec.structs.replace(progress, validations_since_best=since)
    return msgspec.structs.replace(
        progress,
        best_step=progress.step,
        best_score=score,
        best_loss=loss,
        best_bleu=bleu,
        validations_since_best=0,
    )


def rolled_back(progress: Progress, to: Progress) -> Progress:
    """Return where a run at `progress` goes on with the weights of the checkpoint `to`.

    The state is that of the checkpoint, except for the data, which continue after those of
    the spike, the clock, and the rate, which is lower from now on.
    """
    return msgspec.structs.replace(
        to,
        epoch=progress.epoch,
        position=progress.position,
        seconds=progress.seconds,
        rate_factor=progress.rate_factor * RATE_FACTOR,
        roll_backs=progress.roll_backs + 1,
        guard=after_roll_back(to.guard, to.step, to.best_step),
    )


def end_of(progress: Progress, settings: Settings, updates_in_epoch: int) -> str:
    """Return the limit that has been reached, or "" if training goes on.

    Limits of time are not among them: the clocks of processes differ, so a process requests
    a stop and all agree on it.
    """
    limits = settings.train
    if limits.max_steps and progress.step >= limits.max_steps:
        return "max_steps"
    epochs_done = progress.epoch - (progress.position < updates_in_epoch)
    if limits.max_epochs and epochs_done >= limits.max_epochs:
        return "max_epochs"
    if limits.patience and progress.validations_since_best >= limits.patience:
        return "patience"
    return ""


def validation_is_due(progress: Progress, settings: Settings) -> bool:
    """Whether a validation is due at this step."""
    return progress.step > 0 and progress.step % settings.validation.every_steps == 0


def save_is_due(progress: Progress, settings: Settings) -> bool:
    """Whether a checkpoint is due at this step."""
    return progress.step > 0 and progress.step % settings.checkpoint.every_steps == 0
