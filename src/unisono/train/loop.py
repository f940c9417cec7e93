"""The loop around the updates: take one, tell of it, and do what is due.

`train` is a generator of events. Whoever runs it records and shows them; nothing here
prints, and nothing is called back.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

from msgspec.structs import replace

from unisono.batching.plan import StepPlan
from unisono.batching.stream import PreparedUpdate, Stream, empty_batch
from unisono.config.settings import Settings
from unisono.errors import RunError, UnisonoError
from unisono.records.events import AnyEvent, Ended, StepTaken
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync
from unisono.train.checkpoints.rollback import roll_back, save
from unisono.train.checksums import compare_weights
from unisono.train.divergence_guard import observe
from unisono.train.evaluation import Evaluator
from unisono.train.process_setup import Signals
from unisono.train.progress import (
    Progress,
    after_update,
    after_validation,
    end_of,
    save_is_due,
    validation_is_due,
)
from unisono.train.step import (
    Parts,
    StepControls,
    StepRequests,
    StepResult,
    come_together,
    take_step,
)
from unisono.train.supervision import Section, unsupervised
from unisono.units import seconds_of

SKIPS_ALLOWED = 20


@dataclass(frozen=True)
class Session:
    """Everything the loop uses; made once, in `train.job`."""

    settings: Settings
    parts: Parts
    stream: Stream
    examiner: Evaluator
    keeper: CheckpointSync
    signals: Signals
    section: Section = unsupervised


def train(session: Session, progress: Progress) -> Iterator[AnyEvent]:
    """Train from `progress` on until a limit is reached, yielding what happens."""
    settings, began = session.settings, time.time()
    reason = end_of(progress, settings, session.stream.updates_in(progress.epoch))
    works = session.stream.from_position(progress.epoch, progress.position)
    with closing(works):  # type: ignore[type-var]
        while not reason:
            with session.section("data"):
                work, trouble = _next_work(works, session)
            wishes = _wishes(session, progress, trouble)
            dials = _dials(session, progress)
            with session.section("step"):
                result = take_step(session.parts, work, progress.step + 1, wishes, dials)
            _raise_trouble(result, trouble)
            taken, progress = _account(session, progress, work, result)
            with session.parts.stopwatch.time("recording"):
                yield taken
            _come_together_if_due(session, progress, work, result)
            with session.parts.stopwatch.time("agree"):
                yield from _compared(session, progress.step)
            progress, diverged = _watched(session, progress, result)
            if diverged:
                with session.section("save"), session.parts.stopwatch.paused():
                    progress = yield from roll_back(session.keeper, progress, diverged)
            reason = result.stop or end_of(progress, settings, work.updates_in_epoch)
            if reason or not diverged:
                with session.parts.stopwatch.paused():
                    progress = yield from _due(session, progress, reason, result)
            reason = reason or end_of(progress, settings, work.updates_in_epoch)
    seconds = time.time() - began
    yield Ended(time=time.time(), step=progress.step, reason=reason, seconds=seconds)


def _due(
    session: Session, progress: Progress, reason: str, result: StepResult
) -> Generator[AnyEvent, None, Progress]:
    """Validate and save if it is time to, or if this was the last update."""
    settings, best_before = session.settings, progress.best_step
    finished = reason not in ("", "signal")
    if validation_is_due(progress, settings) or finished:
        with session.section("evaluation"), session.parts.averages.in_place():
            scores = session.examiner.validate(progress.step)
        progress = after_validation(
            progress,
            loss=scores.loss,
            bleu=scores.bleu,
            by=settings.validation.best,
            seconds=scores.seconds,
        )
        is_best = progress.best_step == progress.step
        yield session.examiner.event(scores, progress.step, best=is_best)
    enough = end_of(progress, settings, updates_in_epoch=progress.position + 1)
    better = progress.best_step != best_before
    is_due = save_is_due(progress, settings)
    if is_due or result.save or reason or better or enough:
        with session.section("save"):
            progress = yield from save(session.keeper, progress, due=is_due)
    return progress


def _come_together_if_due(
    session: Session, progress: Progress, work: PreparedUpdate, result: StepResult
) -> None:
    """Let processes whose weights went apart have the same before anybody looks at them."""
    settings = session.settings
    due = validation_is_due(progress, settings) or save_is_due(progress, settings)
    ends = result.stop or end_of(progress, settings, work.updates_in_epoch)
    if due or ends or result.save:
        with session.section("save"):
            come_together(session.parts)


def _compared(session: Session, step: int) -> Iterator[AnyEvent]:
    parts = session.parts
    if not parts.replica.memory.agreed:
        return iter(())
    return compare_weights(parts.comm, parts.replica.module, session.settings.sync, step)


def _next_work(
    works: Iterator[PreparedUpdate], session: Session
) -> tuple[PreparedUpdate, Exception | None]:
    """Return the next update; if it cannot be made, one that learns nothing, and why.

    A process that simply raised here would leave the others waiting in their exchange.
    """
    with session.parts.stopwatch.time("data"):
        try:
            return next(works), None
        except (UnisonoError, OSError, ValueError) as error:
            nothing = StepPlan(1, (), 0, 1, 0, 0)
            return PreparedUpdate(nothing, 0, 0, (empty_batch(),)), error


def _wishes(session: Session, progress: Progress, trouble: Exception | None) -> StepRequests:
    limit = session.settings.train.max_time
    over = bool(limit) and progress.seconds >= seconds_of(limit)
    stop = "signal" if session.signals.stop else "max_time" if over else ""
    return StepRequests(stop=stop, save=session.signals.take_save(), failed=trouble is not None)


def _raise_trouble(result: StepResult, trouble: Exception | None) -> None:
    if trouble is not None:
        raise trouble
    if result.failed_ranks:
        raise RunError(f"process {result.failed_ranks[0]} could not read its data")


def _account(
    session: Session, progress: Progress, work: PreparedUpdate, result: StepResult
) -> tuple[StepTaken, Progress]:
    seconds, parts = session.parts.stopwatch.lap()
    plan = work.plan
    progress = after_update(
        progress,
        epoch=plan.epoch,
        position=work.position,
        tokens=plan.target_tokens,
        seconds=seconds,
    )
    event = StepTaken(
        time=time.time(),
        step=progress.step,
        epoch=plan.epoch,
        loss=result.loss,
        gradient_norm=result.gradient_norm,
        learning_rate=result.learning_rate,
        target_tokens=plan.target_tokens,
        source_tokens=plan.source_tokens,
        positions=plan.positions,
        sentences=plan.sentences,
        seconds=seconds,
        skipped=result.skipped,
        own_positions=sum(batch.positions for batch in work.batches),
        **parts,
    )
    return event, progress


def _dials(session: Session, progress: Progress) -> StepControls:
    scales = session.parts.precision.scales
    return StepControls(progress.rate_factor, progress.loss_scale.value if scales else 1.0)


def _watched(session: Session, progress: Progress, result: StepResult) -> tuple[Progress, str]:
    """Return the progress with what the update taught, and whether the run diverged."""
    scale = progress.loss_scale
    if session.parts.precision.scales:
        progress = replace(progress, loss_scale=scale.after(skipped=result.skipped))
        if result.skipped and scale.value > 1.0:
            return progress, ""  # the scale was too high: the next update has a lower one
    guard, diverged = observe(
        progress.guard, progress.step, result.loss, skipped=result.skipped
    )
    if guard.skips >= SKIPS_ALLOWED:
        raise RunError(
            f"{guard.skips} updates in a row were not finite, up to step {progress.step}",
            where="loss or gradient",
            fix="start a new run with a lower learning rate and `train.clip_norm = 1.0`",
        )
    return replace(progress, guard=guard), diverged if session.settings.train.guard else ""
