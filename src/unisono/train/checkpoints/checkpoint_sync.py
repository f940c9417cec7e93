"""Saving and finding checkpoints, with the other processes looking on."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from torch import Tensor, nn
from torch.optim import Optimizer

from unisono.comm.collectives import all_or_none, tensors_from_leader
from unisono.comm.protocol import Comm, StrategyState
from unisono.comm.strategies.strategy_state import NoState, collect, deal
from unisono.errors import RunError
from unisono.records.events import Saved, Warned
from unisono.train.averages import Averages, averages_of, split, weights_of
from unisono.train.checkpoints import checkpoint, state
from unisono.train.progress import Progress, rolled_back

FAILURES_ALLOWED = 3


@dataclass(frozen=True)
class RestoredCheckpoint:
    """Where to go on, and what was passed over on the way."""

    progress: Progress
    name: str
    troubles: tuple[str, ...]


class CheckpointSync:
    """The checkpoints of a run. Only the leading process touches the disk."""

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
        """Keep the checkpoints of `model` and the others; `fresh` makes it as it began."""
        self._directory, self._keep, self._comm = directory, keep, comm
        self._model, self._optimizer, self._averages = model, optimizer, averages
        self._fresh, self._memory = fresh, memory or NoState()
        self._failures = 0
        self._loaded: Mapping[str, Tensor] = {}  # what the exchange kept, until it is dealt out

    def save(self, progress: Progress) -> Saved | Warned:
        """Save the run as it is; a save that fails is a warning, three in a row an error."""
        exchange = collect(self._comm, self._memory.state())
        outcome = self._write(progress, exchange) if self._comm.world.leads else b""
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

    def restore(self) -> RestoredCheckpoint:
        """Put the newest sound checkpoint back into model and optimizer, if there is one."""
        found = all_or_none(self._comm, self._read_newest)
        told = self._comm.gather_bytes(msgspec.json.encode((found.name, found.progress)))[0]
        name, progress = msgspec.json.decode(told, type=tuple[str, Progress])
        if not name:
            return found
        self._spread()
        return RestoredCheckpoint(progress, name, found.troubles)

    def roll_back(self, progress: Progress) -> Progress:
        """Put back the newest checkpoint known to be good, or the start; return where to go on.

        Newer checkpoints are removed. If the process is killed before the next save, the run
        goes on from that checkpoint and comes to the same roll-back again.
        """
        good = all_or_none(self._comm, lambda: self._read_good(progress.guard.safe[0]))
        told = self._comm.gather_bytes(msgspec.json.encode(good))[0]
        self._spread()
        return rolled_back(progress, msgspec.json.decode(told, type=Progress))

    def restore_best(self) -> Progress:
        """Put the best weights, or averages if they are on, into the model."""
        found = all_or_none(self._comm, self._read_best)
        tensors = tensors_from_leader(self._comm, state.model_tensors(self._model))
        state.restore_model(self._model, tensors, where=str(self._directory))
        told = self._comm.gather_bytes(msgspec.json.encode(found))[0]
        return msgspec.json.decode(told, type=Progress)

    def _write(self, progress: Progress, exchange: Mapping[str, Tensor]) -> bytes:
        began = time.perf_counter()
        try:
            manifest = checkpoint.save(
                self._directory,
                progress,
                state.model_tensors(self._model),
                self._other_tensors(),
                exchange,
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
                f"the run diverged, and checkpoint {checkpoint.name_of(up_to)}, the last good "
                "one, is gone",
                where=str(self._directory),
                fix="start a new run with a lower learning rate",
            )
        progress = self._load(name)
        checkpoint.discard(self._directory, newer_than=name)
        self._tidy(progress)
        return progress

    def _begin_again(self) -> Progress:
        """Make everything as it was before the first update; remove what came of it.

        This needs no checkpoint: the first weights follow from the seed.
        """
        checkpoint.discard(self._directory)
        weights = state.model_tensors(self._fresh())
        state.restore_model(self._model, weights, where="the start of the run")
        self._restore_others(averages_of(weights), where="the start of the run")
        self._loaded = {}
        return Progress()

    def _load(self, name: str) -> Progress:
        """Put the checkpoint `name` into model, optimizer and averages of this process."""
        loaded = checkpoint.load(self._directory / name)
        where = str(self._directory / name)
        state.restore_model(self._model, loaded.model, where=where)
        self._restore_others(loaded.optimizer, where)
        self._loaded = loaded.exchange
        return loaded.progress

    def _spread(self) -> None:
        """Give all processes what the leading one has."""
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
