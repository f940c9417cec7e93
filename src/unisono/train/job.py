"""The one place that builds the parts of a run and sets them going."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import torch

from unisono.batching.stream import empty_batch
from unisono.bundle.writer import write_bundle
from unisono.comm.collectives import all_or_none
from unisono.comm.protocol import Comm
from unisono.comm.strategies.build import idle_strategy
from unisono.comm.waiting import Notify, no_notice
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus, open_corpus
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.cost_model.strategies import AUTO, STRATEGIES
from unisono.errors import ConfigError
from unisono.models.transformer import TransformerModel
from unisono.records.environment import describe_environment
from unisono.records.events import AnyEvent, Chose, Ended, Started, StepTaken, Tested, Warned
from unisono.records.layout import RunDirectory
from unisono.records.recorder import Recorder
from unisono.train.build import build_session, device_of, mixture, strategy_for
from unisono.train.checkpoints.checkpoint_sync import RestoredCheckpoint
from unisono.train.loop import Session, train
from unisono.train.precision import set_tf32
from unisono.train.preconditions import check_possible, same_everywhere, uneven_shares
from unisono.train.process_setup import Signals, keep_freed_memory
from unisono.train.progress import Progress
from unisono.train.run_lock import RunLock, lock_run
from unisono.train.sampling import sampling
from unisono.train.step import warm_up
from unisono.train.supervision import Section, Supervision, joined, unsupervised
from unisono.units import seconds_of

Settle = Callable[[Comm, Settings, Corpus, Notify], tuple[Settings, Chose | None]]
"""How a run comes to its strategy: settings that name one, and what was chosen, if it was."""


def as_configured(
    comm: Comm, settings: Settings, corpus: Corpus, tell: Notify
) -> tuple[Settings, Chose | None]:
    """Take the strategy that the settings name. Only `check` can choose one for "auto"."""
    if settings.sync.strategy == AUTO:
        raise ConfigError(
            f'nothing here can choose a strategy for "{AUTO}"',
            where="sync.strategy",
            fix="name a strategy, or start the run with `unisono train`",
        )
    return settings, None


def run_training(
    settings: Settings, tell: Notify = no_notice, settle: Settle = as_configured
) -> Iterator[AnyEvent]:
    """Train as `settings` say, alone or with the processes started with this one.

    Every event is recorded in the run directory before it is yielded. Before there can be
    any, `tell` is told what the start waits for.
    """
    timeout = seconds_of(settings.sync.timeout)
    with joined(settings, timeout, tell) as comm, Supervision(comm, settings) as watched:
        for event in run_with(comm, settings, watched, tell, settle):
            watched.saw(event)
            yield event


def run_with(
    comm: Comm,
    settings: Settings,
    watched: Supervision | None = None,
    tell: Notify = no_notice,
    settle: Settle = as_configured,
) -> Iterator[AnyEvent]:
    """Train as `settings` say together with the processes of `comm`."""
    corpus = all_or_none(
        comm, lambda: open_corpus(Path(settings.corpus.directory), verify=True)
    )
    same_everywhere(comm, settings, corpus)
    check_possible(comm, settings, corpus)
    set_tf32(settings.train.tf32, comm.world.device)
    keep_freed_memory()
    claimed = all_or_none(comm, lambda: _claim(settings, corpus, comm))
    if watched is not None:
        watched.state("starting")
    try:
        settled, choice = settle(comm, settings, corpus, tell)
        section = watched.section if watched else unsupervised
        yield from _run(settled, corpus, comm, section, choice)
    finally:
        if claimed is not None:
            claimed.release()


def _run(
    settings: Settings, corpus: Corpus, comm: Comm, section: Section, choice: Chose | None
) -> Iterator[AnyEvent]:
    recorder = Recorder(Path(settings.run), comm.world.rank, leads=comm.world.leads)
    try:
        with Signals() as signals, sampling(comm, settings):
            for event in _events(settings, corpus, comm, signals, section, choice):
                recorder.write(event)
                yield event
    finally:
        recorder.close()


def _events(
    settings: Settings,
    corpus: Corpus,
    comm: Comm,
    signals: Signals,
    section: Section,
    choice: Chose | None,
) -> Iterator[AnyEvent]:
    built, model = build_session(settings, corpus, comm, signals, strategy_for(settings, comm))
    session = replace(built, section=section)
    found = session.keeper.restore()
    started = _started(session, found, model)
    yield msgspec.structs.replace(started, sources=mixture(corpus.manifest, session.stream))
    if choice is not None:
        yield msgspec.structs.replace(choice, step=found.progress.step)
    uneven = uneven_shares(settings.batching, comm.world.size)
    idle = idle_strategy(settings.sync, comm.world.size, comm.world.local_size)
    odd = comm.world.warnings
    for trouble in filter(None, (*odd, *found.troubles, uneven, idle)):
        yield Warned(time=time.time(), step=found.progress.step, message=trouble)
    with session.examiner.compiling.paused():
        nothing = empty_batch().to(device_of(comm))
        warm_up(session.parts.replica, nothing, session.parts.stopwatch)
    news = not RunDirectory(Path(settings.run)).bundle.is_dir()
    for event in train(session, found.progress):
        news = news or isinstance(event, StepTaken)
        if not isinstance(event, Ended):
            yield event
            continue
        if event.reason != "signal" and comm.any(news):
            with section("evaluation"):
                yield from _finish(session, model, corpus)
        yield msgspec.structs.replace(event, time=time.time())


def _finish(session: Session, model: TransformerModel, corpus: Corpus) -> Iterator[AnyEvent]:
    """Score the best checkpoint on the test set and make the bundle of it."""
    best = session.keeper.restore_best()
    tested = session.examiner.score_test(best.step)
    if tested is not None:
        yield tested
    all_or_none(session.parts.comm, lambda: _write_bundle(session, model, corpus, best, tested))


def _started(session: Session, found: RestoredCheckpoint, model: TransformerModel) -> Started:
    world, sync = session.parts.comm.world, session.settings.sync
    facts = STRATEGIES[sync.strategy]
    return Started(
        time=time.time(),
        step=found.progress.step,
        rank=world.rank,
        size=world.size,
        local_rank=world.local_rank,
        host=os.uname().nodename,
        pid=os.getpid(),
        device=world.device,
        threads=torch.get_num_threads(),
        strategy=sync.strategy if world.size > 1 else "solo",
        parameters=sum(weight.numel() for weight in model.parameters()),
        updates_per_epoch=session.stream.updates_in(found.progress.epoch),
        checkpoint=found.name,
        seconds=found.progress.seconds,
        interface=world.interface,
        address=world.address,
        bits=facts.bits(sync.bits),
        every=facts.every(sync.local_steps),
        bucket_mb=sync.bucket_mb or USUAL_BUCKET_MB,
    )


def _write_bundle(
    session: Session,
    model: TransformerModel,
    corpus: Corpus,
    best: Progress,
    tested: Tested | None,
) -> None:
    if not session.parts.comm.world.leads:
        return
    scores = {"valid_loss": best.best_loss}
    if best.best_bleu >= 0:
        scores["valid_bleu"] = best.best_bleu
    if tested is not None:
        scores["test_bleu"] = tested.bleu
        scores |= {"test_bleu_low": tested.bleu_low, "test_bleu_high": tested.bleu_high}
    settings = session.settings
    write_bundle(
        RunDirectory(Path(settings.run)).bundle,
        model=model,
        tokenizers=corpus.tokenizers(),
        normalisation=corpus.normalisation(),
        source_language=corpus.manifest.source_language,
        target_language=corpus.manifest.target_language,
        decoding=settings.decoding,
        max_pieces=settings.corpus.max_pieces,
        step=best.step,
        scores=scores,
        bleu_signature=tested.bleu_signature if tested is not None else "",
    )


def _claim(settings: Settings, corpus: Corpus, comm: Comm) -> RunLock | None:
    if not comm.world.leads:
        return None
    return lock_run(settings, corpus, describe_environment(_devices()))


def _devices() -> list[str]:
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return names or ["cpu"]
