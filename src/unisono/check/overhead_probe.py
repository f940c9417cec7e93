"""The time that a rehearsal may take.

What a run does besides its updates, measured: data, evaluations, checkpoints.
"""

import time
from dataclasses import dataclass

from unisono.check.probe_updates import ProbeUpdates
from unisono.comm.protocol import Comm
from unisono.models.transformer import TransformerModel
from unisono.records.events import Saved
from unisono.train.loop import Session
from unisono.train.process_setup import all_fit
from unisono.train.progress import Progress

# After the measuring, for an evaluation, a checkpoint and the data: with 35 s, a minute.
SPARE_SECONDS = 25.0


@dataclass(frozen=True, eq=False)
class Deadline:
    """When the measuring is to be over (`until`), by this process's clock, and when all is."""

    comm: Comm
    until: float

    @property
    def end(self) -> float:
        """Return when everything has to be over."""
        return self.until + SPARE_SECONDS

    def allows(self, seconds: float = 0.0) -> bool:
        """Return whether so much more fits in, on every process. All have to ask together."""
        return not self.comm.any(time.perf_counter() + seconds > self.end)


@dataclass(frozen=True)
class Overhead:
    """Seconds of what a run does besides its updates, and what there was no time for."""

    loader: float = 0.0
    evaluation: float = 0.0
    translation: float = 0.0
    checkpoint: float = 0.0
    checkpoint_bytes: int = 0
    unmeasured: tuple[str, ...] = ()


def measure_overhead(
    session: Session, trial: ProbeUpdates, model: TransformerModel, deadline: Deadline
) -> Overhead:
    """Measure one of each, as long as there is time; translations are the first to be left."""
    comm, settings, unmeasured = session.parts.comm, session.settings, []
    loader = worst(comm, trial.loader_seconds())
    evaluation = one_batch = translation = 0.0
    if deadline.allows():
        all_of_it, took = all_fit(comm, settings, lambda: trial.evaluation_seconds(model))
        evaluation, one_batch = worst(comm, all_of_it), worst(comm, took)
    else:
        unmeasured.append("evaluations")
    saved = None
    if deadline.allows():
        saved = session.checkpoint_sync.save(Progress())
    else:
        unmeasured.append("checkpoints")
    if deadline.allows(one_batch):
        took = all_fit(comm, settings, lambda: trial.translation_seconds(model))
        translation = worst(comm, took)
    elif trial.translates:
        unmeasured.append("translations")
    there = saved if isinstance(saved, Saved) else None
    return Overhead(
        loader=loader,
        evaluation=evaluation,
        translation=translation,
        checkpoint=there.seconds if there else 0.0,
        checkpoint_bytes=there.bytes if there else 0,
        unmeasured=tuple(unmeasured),
    )


def worst(comm: Comm, value: float) -> float:
    """Return the largest of all processes' values."""
    return max(row[0] for row in comm.gather([value]))
