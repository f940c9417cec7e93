"""Saving and finding checkpoints, with the other processes looking on."""

import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
from torch import nn
from torch.optim import Optimizer

from unisono.comm.protocol import Comm
from unisono.comm.together import all_or_none, tensors_from_leader
from unisono.errors import RunError
from unisono.records.events import Saved, Warned
from unisono.train import checkpoint, state
from unisono.train.progress import Progress

FAILURES_ALLOWED = 3


@dataclass(frozen=True)
class Found:
    """Where to go on, and what was passed over on the way."""

    progress: Progress
    name: str
    troubles: tuple[str, ...]


class Keeper:
    """The checkpoints of a run. Only the leading process touches the disk."""

    def __init__(
        self, directory: Path, keep: int, comm: Comm, model: nn.Module, optimizer: Optimizer
    ) -> None:
        self._directory, self._keep, self._comm = directory, keep, comm
        self._model, self._optimizer = model, optimizer
        self._failures = 0

    def save(self, progress: Progress) -> Saved | Warned:
        """Save the run as it is; a save that fails is a warning, three in a row an error."""
        outcome = self._write(progress) if self._comm.world.leads else b""
        told = self._comm.gather_bytes(outcome)[0]
        event = msgspec.json.decode(told, type=Saved | Warned)
        self._failures = self._failures + 1 if isinstance(event, Warned) else 0
        if isinstance(event, Warned) and self._failures >= FAILURES_ALLOWED:
            raise RunError(
                f"{self._failures} saves in a row failed; the last one: {event.message}",
                where=str(self._directory),
                fix="free some disk space and start the same command again",
            )
        return event

    def restore(self) -> Found:
        """Put the newest sound checkpoint back into model and optimizer, if there is one."""
        found = all_or_none(self._comm, self._read_newest)
        told = self._comm.gather_bytes(msgspec.json.encode(found.progress))[0]
        progress = msgspec.json.decode(told, type=Progress)
        if progress.step == 0:
            return found
        where = f"{self._directory}/{checkpoint.name_of(progress.step)}"
        model = tensors_from_leader(self._comm, state.model_tensors(self._model))
        state.restore_model(self._model, model, where=where)
        mine = state.optimizer_tensors(self._model, self._optimizer)
        optimizer = tensors_from_leader(self._comm, mine)
        state.restore_optimizer(self._model, self._optimizer, optimizer, where=where)
        return Found(progress, checkpoint.name_of(progress.step), found.troubles)

    def restore_best(self) -> Progress:
        """Put the weights of the best checkpoint into the model; return its progress."""
        found = all_or_none(self._comm, self._read_best)
        tensors = tensors_from_leader(self._comm, state.model_tensors(self._model))
        state.restore_model(self._model, tensors, where=str(self._directory))
        told = self._comm.gather_bytes(msgspec.json.encode(found))[0]
        return msgspec.json.decode(told, type=Progress)

    def _write(self, progress: Progress) -> bytes:
        began = time.perf_counter()
        try:
            manifest = checkpoint.save(
                self._directory,
                progress,
                state.model_tensors(self._model),
                state.optimizer_tensors(self._model, self._optimizer),
            )
            self._tidy(progress)
        except (OSError, RunError) as error:
            message = f"the checkpoint of step {progress.step} was not saved: {error}"
            return msgspec.json.encode(
                Warned(time=time.time(), step=progress.step, message=message)
            )
        files = {name: entry.bytes for name, entry in manifest.files.items()}
        name = checkpoint.name_of(progress.step)
        files[checkpoint.MANIFEST] = (
            (self._directory / name / checkpoint.MANIFEST).stat().st_size
        )
        return msgspec.json.encode(
            Saved(
                time=time.time(),
                step=progress.step,
                name=name,
                bytes=sum(files.values()),
                files=files,
                seconds=time.perf_counter() - began,
            )
        )

    def _tidy(self, progress: Progress) -> None:
        """Let the pointers say what `progress` knows, and remove what is no longer needed.

        Also done when a run is continued: a kill can come between a save and its pointers.
        """
        best = checkpoint.name_of(progress.best_step) if progress.best_step else ""
        pointers = {"latest": checkpoint.name_of(progress.step), "best": best}
        for pointer, name in pointers.items():
            there = (self._directory / name).is_dir()  # the best one's save may have failed
            if name and there and checkpoint.pointed(self._directory, pointer) != name:
                checkpoint.point(self._directory, pointer, name)
        checkpoint.prune(self._directory, self._keep, best)

    def _read_newest(self) -> Found:
        if not self._comm.world.leads:
            return Found(Progress(), "", ())
        name, troubles = checkpoint.newest(self._directory)
        if not name:
            return Found(Progress(), "", tuple(troubles))
        loaded = checkpoint.load(self._directory / name)
        where = str(self._directory / name)
        state.restore_model(self._model, loaded.model, where=where)
        state.restore_optimizer(self._model, self._optimizer, loaded.optimizer, where=where)
        checkpoint.set_aside(self._directory, newer_than=name)
        self._tidy(loaded.progress)
        return Found(loaded.progress, name, tuple(troubles))

    def _read_best(self) -> Progress:
        if not self._comm.world.leads:
            return Progress()
        best = checkpoint.pointed(self._directory, "best")
        name = best or checkpoint.newest(self._directory)[0]
        loaded = checkpoint.load(self._directory / name)
        state.restore_model(self._model, loaded.model, where=str(self._directory / name))
        return loaded.progress
