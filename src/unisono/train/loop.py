"""The loop around the updates: take one, report it, and do what is due.

`train` is a generator of events. Its caller records and shows them; nothing here prints,
and nothing calls back.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from unisono.batching.plan import StepPlan
from unisono.batching.stream import PreparedUpdate, Stream, empty_batch
from unisono.config.settings import Settings
from unisono.errors import RunError, UnisonoError
from unisono.records.events import AnyEvent, StepTaken
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync, finish, roll_back, save
from unisono.train.checksums import compare_weights
from unisono.train.divergence_guard import observe
from unisono.train.evaluation import Evaluator
from unisono.train.process_setup import Signals, explain_oom
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
    synchronize_weights,
    take_step,
)
from unisono.train.supervision import Section, Unsupervised
from unisono.units import seconds_of

SKIPS_ALLOWED = 20


@dataclass(frozen=True)
class Session:
    """Everything the loop uses; `train.build` makes it once."""

    settings: Settings
    parts: Parts
    stream: Stream
    evaluator: Evaluator
    checkpoint_sync: CheckpointSync
    signals: Signals
    section: Section = Unsupervised().section


def train(
    session: Session, progress: Progress
) -> Generator[AnyEvent, None, tuple[Progress, str]]:
    """Train from `progress` until a limit is reached; return where the run is and which limit.

    Yield an event for everything that happens.
    """
    settings, stopwatch = session.settings, session.parts.stopwatch
    device = session.parts.comm.world.device
    reason = end_of(progress, settings, session.stream.updates_in(progress.epoch))
    updates = session.stream.from_position(progress.epoch, progress.position)
    with closing(updates):  # type: ignore[type-var]
        while not reason:
            with session.section("data"):
                work, failure = _next_update(updates, session)
            requests = _requests(session, progress, failure)
            controls = _controls(session, progress)
            unfit = partial(_unfit, progress.step + 1, work)
            with session.section("step"), explain_oom(settings, device, unfit):
                result = take_step(session.parts, work, progress.step + 1, requests, controls)
            _raise_failure(result, failure)
            taken, progress = _account(session, progress, work, result)
            with stopwatch.time("recording"):
                yield taken
            _synchronize_if_due(session, progress, work, result)
            with stopwatch.time("agree"):
                yield from _compare_weights(session, progress.step)
            if result.written:
                with session.section("save"), stopwatch.paused():
                    progress = yield from finish(session.checkpoint_sync, progress)
            progress, diverged = _guard(session, progress, result)
            if diverged:
                with session.section("save"), stopwatch.paused():
                    progress = yield from roll_back(session.checkpoint_sync, progress, diverged)
            reason = result.stop or end_of(progress, settings, work.updates_in_epoch)
            if reason or not diverged:
                with stopwatch.paused():
                    progress = yield from _validate_and_save(session, progress, reason, result)
            reason = reason or end_of(progress, settings, work.updates_in_epoch)
    return progress, reason


def _unfit(step: int, work: PreparedUpdate) -> str:
    """Say that an update does not fit, and name its largest micro-batch."""
    largest = max(work.batches, key=lambda batch: batch.positions)
    (sentences, source), target = largest.source.shape, largest.target_in.size(1)
    return (
        f"update {step}, whose largest micro-batch (number {largest.number}) has {sentences} "
        f"sentences of {source} source and {target} target tokens, does not fit"
    )


def _validate_and_save(
    session: Session, progress: Progress, reason: str, result: StepResult
) -> Generator[AnyEvent, None, Progress]:
    """Validate and save, each if it is due or if this was the last update."""
    settings, best_before = session.settings, progress.best_step
    finished = reason not in ("", "signal")
    if validation_is_due(progress, settings) or finished:
        averages, device = session.parts.averages, session.parts.comm.world.device
        unfit = partial("the validation after update {} does not fit".format, progress.step)
        with (
            session.section("evaluation"),
            explain_oom(settings, device, unfit),
            averages.in_place(),
        ):
            scores = session.evaluator.validate(progress.step)
        progress = after_validation(
            progress,
            loss=scores.loss,
            bleu=scores.bleu,
            chrf=scores.chrf,
            by=settings.validation.best,
            seconds=scores.seconds,
        )
        is_best = progress.best_step == progress.step
        yield session.evaluator.event(scores, progress.step, best=is_best)
    enough = end_of(progress, settings, updates_in_epoch=progress.position + 1)
    better = progress.best_step != best_before
    is_due = save_is_due(progress, settings)
    if is_due or result.save or reason or better or enough:
        with session.section("save"):
            progress = yield from save(
                session.checkpoint_sync, progress, due=is_due, last=bool(reason or enough)
            )
    return progress


def _synchronize_if_due(
    session: Session, progress: Progress, work: PreparedUpdate, result: StepResult
) -> None:
    """Give processes whose weights differ the same ones before anything reads the weights."""
    settings = session.settings
    due = validation_is_due(progress, settings) or save_is_due(progress, settings)
    ends = result.stop or end_of(progress, settings, work.updates_in_epoch)
    if due or ends or result.save:
        with session.section("save"):
            synchronize_weights(session.parts)


def _compare_weights(session: Session, step: int) -> Iterator[AnyEvent]:
    parts = session.parts
    if not parts.replica.memory.agreed:
        return iter(())
    return compare_weights(parts.comm, parts.replica.module, session.settings.sync, step)


def _next_update(
    updates: Iterator[PreparedUpdate], session: Session
) -> tuple[PreparedUpdate, Exception | None]:
    """Return the next update; if that fails, one that learns nothing, and the error.

    If this process simply raised the error, the others would wait for it in their exchange.
    """
    with session.parts.stopwatch.time("data"):
        try:
            return next(updates), None
        except (UnisonoError, OSError, ValueError) as error:
            nothing = StepPlan(1, (), 0, 1, 0, 0)
            return PreparedUpdate(nothing, 0, 0, (empty_batch(),)), error


def _requests(session: Session, progress: Progress, failure: Exception | None) -> StepRequests:
    limit = session.settings.train.max_time
    over = bool(limit) and progress.seconds >= seconds_of(limit)
    stop = "signal" if session.signals.stop else "max_time" if over else ""
    return StepRequests(
        stop=stop,
        save=session.signals.take_save(),
        written=session.checkpoint_sync.is_written,
        failed=failure is not None,
    )


def _controls(session: Session, progress: Progress) -> StepControls:
    scales = session.parts.precision.scales
    return StepControls(progress.rate_factor, progress.loss_scale.value if scales else 1.0)


def _raise_failure(result: StepResult, failure: Exception | None) -> None:
    if failure is not None:
        raise failure
    if result.failed_ranks:
        raise RunError(f"process {result.failed_ranks[0]} could not read its data")


def _account(
    session: Session, progress: Progress, work: PreparedUpdate, result: StepResult
) -> tuple[StepTaken, Progress]:
    seconds, timers = session.parts.stopwatch.lap()
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
        **timers,
    )
    return event, progress


def _guard(session: Session, progress: Progress, result: StepResult) -> tuple[Progress, str]:
    """Return the progress with what the update showed, and why the run diverged, or ""."""
    scale = progress.loss_scale
    if session.parts.precision.scales:
        progress = replace(progress, loss_scale=scale.after(skipped=result.skipped))
        if result.skipped and scale.value > 1.0:
            return progress, ""  # the scale was too high; the next update has a lower one
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
