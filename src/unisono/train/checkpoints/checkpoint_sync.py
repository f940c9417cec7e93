"""Saving, restoring and rolling back to checkpoints, in step with the other processes.

A save is begun at an update, and written by a thread of the leading process while training
goes on. All processes know that it is under way. They learn of its end together: from the
message of an update, or because they wait for it.
"""

import os
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim import Optimizer

from unisono.comm.collectives import all_or_none, tensors_from_leader
from unisono.comm.protocol import Comm, StrategyState
from unisono.comm.strategies.strategy_state import NoState, collect, deal
from unisono.errors import RunError, UnisonoError
from unisono.records.events import AnyEvent, RolledBack, Saved, Warned
from unisono.train.averages import Averages, averages_of, split, weights_of
from unisono.train.checkpoints import checkpoint, state
from unisono.train.checkpoints.background_save import BackgroundSave, HostCopies
from unisono.train.divergence_guard import ROLL_BACKS, Guard, after_failed_save, after_save
from unisono.train.process_setup import is_about_memory
from unisono.train.progress import Progress, rolled_back

FAILURES_ALLOWED = 3


@dataclass(frozen=True)
class RestoredCheckpoint:
    """Where to go on, and why newer checkpoints were not used."""

    progress: Progress
    name: str
    troubles: tuple[str, ...]


@dataclass(frozen=True)
class SaveUnderWay:
    """A save that was begun: of which step, and what was known to be good before it."""

    step: int
    guard: Guard


class CheckpointSync:
    """The checkpoints of a run. Only the leading process reads and writes files."""

    def __init__(
        self,
        directory: Path,
        keep: int,
        comm: Comm,
        model: nn.Module,
        optimizer: Optimizer,
        averages: Averages,
        fresh: Callable[[], nn.Module],
        memory: StrategyState | None = None,
    ) -> None:
        """Save and restore `model` and the others; `fresh` makes the untrained model."""
        self._directory, self._keep, self._comm = directory, keep, comm
        self._model, self._optimizer, self._averages = model, optimizer, averages
        self._fresh, self._memory = fresh, memory or NoState()
        self._failures = 0
        self._copies, self._background = HostCopies(), BackgroundSave()
        self._begun: SaveUnderWay | None = None
        self._loaded: Mapping[str, Tensor] = {}  # state of the strategy, until `_spread`

    def begin_save(self, progress: Progress, before: Guard | None = None) -> None:
        """Copy the state of the run, and begin to write it. No save may be under way.

        `before` is the guard of the run before this save, should the save fail.
        """
        began = time.perf_counter()
        self._begun = SaveUnderWay(progress.step, before or progress.guard)
        self._copies.begin()
        self._memory.before_save()
        exchange = collect(self._comm, self._memory.state(), self._copies.add)
        tensors = all_or_none(self._comm, self._copy_state)
        copied = self._copies.copied(self._comm.world.device)
        if self._comm.world.leads:
            stall = time.perf_counter() - began
            self._background.start(
                lambda: self._write(progress, *tensors, exchange, copied), stall
            )

    @property
    def under_way(self) -> SaveUnderWay | None:
        """The save that is under way, on all processes alike."""
        return self._begun

    @property
    def is_written(self) -> bool:
        """Whether this process knows that the save under way is over; only one can."""
        return self._background.is_written

    def finish_save(self) -> Saved | Warned:
        """Wait for the save under way; three failures in a row are an error.

        All processes call this together.
        """
        mine = self._background.wait() if self._comm.world.leads else None
        event, stall = self._from_leader(mine, tuple[Saved | Warned, float])
        self._begun = None
        self._failures = self._failures + 1 if isinstance(event, Warned) else 0
        if isinstance(event, Warned) and self._failures >= FAILURES_ALLOWED:
            raise RunError(
                f"{self._failures} saves in a row failed; the last one: {event.message}",
                where=str(self._directory),
                fix="look for a full disk, a quota, a limit (`ulimit -f`, `ulimit -n`), a "
                "moved directory; then start the same command again",
            )
        return replace(event, stall=stall) if isinstance(event, Saved) else event

    def save(self, progress: Progress) -> Saved | Warned:
        """Save the run, and wait for it."""
        self.begin_save(progress)
        return self.finish_save()

    def close(self) -> None:
        """Wait for what this process is writing; it asks no other process."""
        self._background.close()

    def restore(self) -> RestoredCheckpoint:
        """Restore model and optimizer from the newest sound checkpoint, if there is one."""
        found = all_or_none(self._comm, self._read_newest)
        mine = found.name, found.progress
        name, progress = self._from_leader(mine, tuple[str, Progress])
        if not name:
            return found
        self._spread()
        return RestoredCheckpoint(progress, name, found.troubles)

    def roll_back(self, progress: Progress) -> Progress:
        """Restore the newest checkpoint known to be good, or the start; return where to go on.

        Newer checkpoints are removed. If the process is killed before the next save, the run
        continues from that checkpoint and comes to the same roll-back again.
        """
        good = all_or_none(self._comm, lambda: self._read_good(progress.guard.safe[0]))
        to: Progress = self._from_leader(good, Progress)
        self._spread()
        return rolled_back(progress, to)

    def restore_best(self) -> Progress:
        """Load the best weights into the model, or their averages if the run keeps them."""
        found = all_or_none(self._comm, self._read_best)
        tensors = tensors_from_leader(self._comm, state.model_tensors(self._model))
        state.restore_model(self._model, tensors, where=str(self._directory))
        best: Progress = self._from_leader(found, Progress)
        return best

    def _from_leader(self, value: object, kind: Any) -> Any:
        """Return the `value` of the leading process, which is of type `kind`."""
        rows = self._comm.gather_bytes(msgspec.json.encode(value))
        return msgspec.json.decode(rows[0], type=kind)

    def _copy_state(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return copies of the weights, and of optimizer and averages, on the leader."""
        if not self._comm.world.leads:
            return {}, {}
        try:
            return (
                self._copies.add_all(checkpoint.MODEL, state.model_tensors(self._model)),
                self._copies.add_all(checkpoint.OPTIMIZER, self._other_tensors()),
            )
        except (MemoryError, RuntimeError) as error:
            if not is_about_memory(error):
                raise
            raise RunError(
                f"no memory for the copy that a checkpoint is written from: {error}",
                where=os.uname().nodename,
                fix="free memory on this machine, as much as a checkpoint has bytes",
            ) from error

    def _write(
        self,
        progress: Progress,
        model: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        exchange: Mapping[str, Tensor],
        copied: Callable[[], None],
    ) -> Saved | Warned:
        """Write the copies of a state; in a thread, so this must not communicate."""
        began = time.perf_counter()
        try:
            copied()
            manifest = checkpoint.save(self._directory, progress, model, optimizer, exchange)
            path = self._directory / checkpoint.name_of(progress.step) / checkpoint.MANIFEST
            manifest_bytes = path.stat().st_size
            self._tidy(progress)
        except (OSError, UnisonoError, SafetensorError) as error:
            message = f"the checkpoint of step {progress.step} was not saved: {error}"
            return Warned(time=time.time(), step=progress.step, message=message)
        files = {name: entry.bytes for name, entry in manifest.files.items()}
        name = checkpoint.name_of(progress.step)
        files[checkpoint.MANIFEST] = manifest_bytes
        return Saved(
            time=time.time(),
            step=progress.step,
            name=name,
            bytes=sum(files.values()),
            files=files,
            seconds=time.perf_counter() - began,
        )

    def _tidy(self, progress: Progress) -> None:
        """Update the pointers from `progress`, and remove checkpoints nobody needs any more.

        A continued run does this too: a kill can come between a save and its pointers.
        """
        best = checkpoint.name_of(progress.best_step) if progress.best_step else ""
        pointers = {"latest": checkpoint.name_of(progress.step), "best": best}
        for pointer, name in pointers.items():
            exists = (self._directory / name).is_dir()  # saving the best one may have failed
            if name and exists and checkpoint.pointed(self._directory, pointer) != name:
                checkpoint.point(self._directory, pointer, name)
        guard = progress.guard
        good = {checkpoint.name_of(step) for step in (*guard.safe, *guard.next_safe) if step}
        checkpoint.prune(self._directory, self._keep, {best, *good})

    def _read_newest(self) -> RestoredCheckpoint:
        if not self._comm.world.leads:
            return RestoredCheckpoint(Progress(), "", ())
        name, troubles = checkpoint.newest(self._directory)
        if not name:
            return RestoredCheckpoint(Progress(), "", tuple(troubles))
        progress = self._load(name)
        checkpoint.set_aside(self._directory, newer_than=name)
        self._tidy(progress)
        return RestoredCheckpoint(progress, name, tuple(troubles))

    def _read_good(self, up_to: int) -> Progress:
        if not self._comm.world.leads:
            return Progress()
        if up_to == 0:
            return self._begin_again()
        name, _ = checkpoint.newest(self._directory, up_to)
        if not name:
            raise RunError(
                "the run diverged, and its last good checkpoint "
                f"{checkpoint.name_of(up_to)} is gone",
                where=str(self._directory),
                fix="start a new run with a lower learning rate",
            )
        progress = self._load(name)
        checkpoint.discard(self._directory, newer_than=name)
        self._tidy(progress)
        return progress

    def _begin_again(self) -> Progress:
        """Restore the state before the first update; remove the checkpoints made since.

        This needs no checkpoint: the first weights follow from the seed.
        """
        checkpoint.discard(self._directory)
        weights = state.model_tensors(self._fresh())
        state.restore_model(self._model, weights, where="the start of the run")
        self._restore_others(averages_of(weights), where="the start of the run")
        self._loaded = {}
        return Progress()

    def _load(self, name: str) -> Progress:
        """Load the checkpoint `name` into model, optimizer and averages of this process."""
        loaded = checkpoint.load(self._directory / name)
        where = str(self._directory / name)
        state.restore_model(self._model, loaded.model, where=where)
        self._restore_others(loaded.optimizer, where)
        self._loaded = loaded.exchange
        return loaded.progress

    def _spread(self) -> None:
        """Give all processes the state of the leading one."""
        where = f"the leading process, from {self._directory}"
        model = tensors_from_leader(self._comm, state.model_tensors(self._model))
        state.restore_model(self._model, model, where=where)
        self._restore_others(tensors_from_leader(self._comm, self._other_tensors()), where)
        self._memory.load(deal(self._comm, self._loaded))
        self._loaded = {}

    def _other_tensors(self) -> dict[str, Tensor]:
        own = state.optimizer_tensors(self._model, self._optimizer)
        return {**own, **self._averages.tensors()}

    def _restore_others(self, tensors: Mapping[str, Tensor], where: str) -> None:
        own, averages = split(tensors)
        state.restore_optimizer(self._model, self._optimizer, own, where=where)
        self._averages.restore(averages, where=where)

    def _read_best(self) -> Progress:
        if not self._comm.world.leads:
            return Progress()
        best = checkpoint.pointed(self._directory, "best")
        name = best or checkpoint.newest(self._directory)[0]
        loaded = checkpoint.load(self._directory / name)
        _, averages = split(loaded.optimizer)
        best_weights = weights_of(averages) or loaded.model
        state.restore_model(self._model, best_weights, where=str(self._directory / name))
        return loaded.progress


def save(
    checkpoint_sync: CheckpointSync, progress: Progress, *, due: bool, last: bool = False
) -> Generator[AnyEvent, None, Progress]:
    """Begin to save the run, after the save that may be under way; return the progress.

    The progress knows of the save already; `finish` takes that back if it fails. The `last`
    save must succeed, and is waited for.

    A run can roll back only to saves that were `due`. Rolling back to one that somebody asked
    for, or at which the run was stopped, would make it differ from an undisturbed run.
    """
    progress = yield from finish(checkpoint_sync, progress)
    guard = after_save(progress.guard, progress.step, progress.best_step)
    after = replace(progress, guard=guard) if due else progress
    checkpoint_sync.begin_save(after, before=progress.guard)
    if not last:
        return after
    event = checkpoint_sync.finish_save()
    yield event
    if isinstance(event, Warned):
        raise RunError(
            f"the run ends without its last save: {event.message}",
            fix="remove the cause; the same command continues from the last checkpoint, if "
            "there is one",
        )
    return after


def finish(
    checkpoint_sync: CheckpointSync, progress: Progress
) -> Generator[AnyEvent, None, Progress]:
    """Wait for the save under way, if there is one; return the progress that knows its outcome.

    All processes call this together.
    """
    begun = checkpoint_sync.under_way
    if begun is None:
        return progress
    event = checkpoint_sync.finish_save()
    yield event
    if isinstance(event, Saved):
        return progress
    return replace(progress, guard=after_failed_save(progress.guard, begun.step, begun.guard))


def roll_back(
    checkpoint_sync: CheckpointSync, progress: Progress, reason: str
) -> Generator[AnyEvent, None, Progress]:
    """Go back to the last good checkpoint, or the start; return where to go on.

    The learning rate is lower from there on. The result is saved at once and replaces that
    checkpoint.
    """
    progress = yield from finish(checkpoint_sync, progress)
    good = progress.guard.safe[0]
    last_good = f"the last good checkpoint is {checkpoint.name_of(good)}"
    if progress.roll_backs >= ROLL_BACKS:
        raise RunError(
            f"the run diverged at step {progress.step} ({reason}), after {ROLL_BACKS} "
            f"roll-backs and at {progress.rate_factor:g} of its learning rate",
            where=last_good if good else "no checkpoint was good",
            fix="start a new run with a lower rate or a longer warm-up and `train.clip_norm "
            "= 1.0`; look for bad text in the corpus",
        )
    back = checkpoint_sync.roll_back(progress)
    yield RolledBack(
        time=time.time(),
        step=progress.step,
        to_step=back.step,
        reason=reason,
        rate_factor=back.rate_factor,
        number=back.roll_backs,
    )
    yield checkpoint_sync.save(back)
    return back
