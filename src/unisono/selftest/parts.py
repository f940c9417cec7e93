"""What one process of the self-test does: the tests of the group, or the small training."""

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from unisono.comm.collectives import all_or_none
from unisono.comm.protocol import Comm
from unisono.comm.waiting import Notify
from unisono.config.settings import Settings
from unisono.corpus.reader import open_corpus
from unisono.errors import UnisonoError
from unisono.records.events import AnyEvent, Saved, Started, StepTaken
from unisono.selftest import in_group
from unisono.selftest.outcome import KillNotice, SelftestLine, TrainingEnd
from unisono.train.checkpoints import checkpoint
from unisono.train.job import run_training, run_with
from unisono.train.precision import set_tf32
from unisono.train.preconditions import settle_precision
from unisono.train.supervision import process_group
from unisono.units import seconds_of

Emit = Callable[[SelftestLine | TrainingEnd | KillNotice], None]


def run_group_tests(settings: Settings, emit: Emit, notify: Notify, *, short: bool) -> None:
    """Make the tests of the group; the leading process emits the lines."""
    timeout = seconds_of(settings.sync.timeout)
    with process_group(settings, timeout, notify) as comm:
        for line in _lines(comm, settings, short=short):
            if comm.world.leads:
                emit(line)
        if not short:  # the run that never stops, to compare others with
            _train(run_with(comm, settings), settings, emit, leads=comm.world.leads)


def _lines(comm: Comm, settings: Settings, *, short: bool) -> Iterator[SelftestLine]:
    yield in_group.versions(comm)
    yield in_group.bandwidth(comm)
    if short:
        return
    settings = settle_precision(comm, settings)
    set_tf32(False, comm.world.device)
    corpus = all_or_none(comm, lambda: open_corpus(Path(settings.corpus.directory)))
    yield _shielded(
        "updates on the device", lambda: in_group.updates_on_device(comm, settings, corpus)
    )
    yield from in_group.strategies(comm, settings, corpus)
    yield _shielded(
        "the longest micro-batch",
        lambda: in_group.longest_micro_batch(comm, settings, corpus),
    )
    yield _shielded("speed", lambda: in_group.speed(comm, settings, corpus))


def _shielded(name: str, test: Callable[[], SelftestLine]) -> SelftestLine:
    try:
        return test()
    except UnisonoError as error:
        return SelftestLine(name=name, passed=False, text=error.what, fix=error.fix)


def run_trial_training(settings: Settings, emit: Emit, notify: Notify, kill_at: int) -> None:
    """Train as the settings say; the last process kills itself at update `kill_at`.

    It waits until a checkpoint is complete: there has to be one to continue from.
    """
    rank = int(os.environ.get("RANK", "0"))
    dies = kill_at if rank == int(os.environ.get("WORLD_SIZE", "1")) - 1 else 0
    _train(run_training(settings, notify), settings, emit, leads=rank == 0, dies=dies)


def _train(
    events: Iterator[AnyEvent], settings: Settings, emit: Emit, *, leads: bool, dies: int = 0
) -> None:
    loss, step, began, saved = 0.0, 0, 0, False
    for event in events:
        if isinstance(event, Started):
            began = event.step
        elif isinstance(event, Saved):  # all processes learn of it together
            saved = True
        elif isinstance(event, StepTaken):
            loss, step = event.loss, event.step
            if dies and step >= dies and saved:
                emit(KillNotice(int(os.environ.get("RANK", "0"))))
                os.kill(os.getpid(), signal.SIGKILL)
    if leads:
        where = Path(settings.run) / "checkpoints" / f"step-{step:07d}"
        emit(TrainingEnd(_hash_of(where), loss, step, began))


def _hash_of(place: Path) -> str:
    total = hashlib.sha256()
    for name, weight in sorted(checkpoint.load(place).model.items()):
        total.update(name.encode())
        total.update(weight.cpu().numpy().tobytes())
    return total.hexdigest()[:16]
