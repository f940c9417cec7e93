"""Rehearse a checkpoint: copied at an update, read by a thread after the next one."""

import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

from unisono.records.events import Warned
from unisono.train.checkpoints import checkpoint
from unisono.train.checkpoints.background_save import HostCopies
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync
from unisono.train.progress import Progress
from unisono.train.step import synchronize_weights


class HeldSaves(CheckpointSync):
    """Saves whose thread begins when it is let go: a whole update later."""

    go: threading.Event

    def _write(self, *arguments):
        self.go.wait()
        return super()._write(*arguments)


def rehearse_saves(parts, recorder, update):
    """Return what two saves do; an update is between the first one's copies and its thread."""
    with tempfile.TemporaryDirectory() as directory:
        saves = HeldSaves(
            Path(directory),
            1,
            parts.comm,
            parts.replica.module,
            parts.optimizer,
            parts.averages,
            lambda: parts.replica.module,
            parts.replica.memory,
        )
        checkpoint.save = _reads_instead(recorder.order)
        synchronize_weights(parts)  # as the loop does before a save
        first = _one(saves, parts, recorder, lambda: update(3, (512,)))
        again = _one(saves, parts, recorder, lambda: None)
        saves.close()
    early = sorted(recorder.order.read_early)
    return {"first_save": first, "second_save": again, "read_early": early}


def _one(saves, parts, recorder, meanwhile):
    saves.go = threading.Event()
    recorder.start()
    before = recorder.live
    parts.comm.__dict__["saving"] = True
    saves.begin_save(Progress(step=2))
    parts.comm.__dict__["saving"] = False
    found = {
        "waits": dict(recorder.synchronisations),
        "copies": dict(recorder.copies),
        "pinned_gb": round(recorder.pinned_bytes / 1e9, 4),
        "more_on_gpu_gb": round((recorder.peak - before) / 1e9, 4),
    }
    meanwhile()
    recorder.synchronisations.clear()
    saves.go.set()
    event = saves.finish_save()
    assert not isinstance(event, Warned), event
    return {**found, "waits_of_thread": dict(recorder.synchronisations)}


def read_copy(order, tensor, *, waits):
    """Read a copy of `tensor` in pinned memory, after having waited for it or before."""
    copies = HostCopies()
    copies.begin()
    copy = copies.add("one", tensor)
    copied = copies.copied("cuda:0")
    if waits:
        copied()
    order.host_reads(copy.untyped_storage()._cdata)


def _reads_instead(order):
    """Return what stands in for writing: fake tensors have no numbers that a file could get."""

    def save(directory, progress, *states):
        for state in states:
            for tensor in state.values():
                order.host_reads(tensor.untyped_storage()._cdata)
        place = directory / checkpoint.name_of(progress.step)
        place.mkdir(exist_ok=True)
        (place / checkpoint.MANIFEST).write_text("{}")
        return SimpleNamespace(files={})

    return save
