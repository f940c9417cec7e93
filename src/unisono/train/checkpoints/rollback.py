"""Saving where a run is, and going back there when it diverges."""

import time
from collections.abc import Generator

from msgspec.structs import replace

from unisono.errors import RunError
from unisono.records.events import AnyEvent, RolledBack, Saved
from unisono.train.checkpoints.checkpoint import name_of
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync
from unisono.train.divergence_guard import ROLL_BACKS, after_save
from unisono.train.progress import Progress


def save(
    keeper: CheckpointSync, progress: Progress, *, due: bool
) -> Generator[AnyEvent, None, Progress]:
    """Save the run as it is; return the progress that knows of it.

    Only saves that are `due` can be gone back to: one that somebody asked for, or where a
    run was stopped, would let it take another course than a run that was left alone.
    """
    guard = after_save(progress.guard, progress.step, progress.best_step)
    told = replace(progress, guard=guard) if due else progress
    event = keeper.save(told)
    yield event
    return told if isinstance(event, Saved) else progress


def roll_back(
    keeper: CheckpointSync, progress: Progress, reason: str
) -> Generator[AnyEvent, None, Progress]:
    """Go back to the last good checkpoint, or the start; return where to go on, more slowly.

    This is saved at once, in the place of that checkpoint.
    """
    if progress.roll_backs >= ROLL_BACKS:
        raise RunError(
            f"the run diverged at step {progress.step} ({reason}), after {ROLL_BACKS} "
            f"roll-backs and at {progress.rate_factor:g} of its learning rate",
            where=_last_good(progress.guard.safe[0]),
            fix="start a new run with a lower rate or a longer warm-up and `train.clip_norm "
            "= 1.0`; look for bad text in the corpus",
        )
    back = keeper.roll_back(progress)
    yield RolledBack(
        time=time.time(),
        step=progress.step,
        to_step=back.step,
        reason=reason,
        rate_factor=back.rate_factor,
        number=back.roll_backs,
    )
    yield keeper.save(back)
    return back


def _last_good(step: int) -> str:
    return f"the last good checkpoint is {name_of(step)}" if step else "no checkpoint was good"
