"""A training run from its settings to its bundle: the recipe.

Events come from `train` in the loop, `_events` adds those of start and end, and
`run_training` records each one before its caller sees it.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
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
from unisono.cost_model.tried_cards import untried_card
from unisono.errors import ConfigError
from unisono.models.transformer import TransformerModel
from unisono.records.events import AnyEvent, Chose, Ended, Started, Tested, Warned
from unisono.records.layout import RunDirectory
from unisono.records.recorder import Recorder, describe_environment
from unisono.train.adaptation import compare_with_start
from unisono.train.build import build_session, device_of, mixture, strategy_for
from unisono.train.checkpoints.checkpoint_sync import RestoredCheckpoint
from unisono.train.loop import Session, train
from unisono.train.memory_trial import try_longest
from unisono.train.micro_batches import settle_micro_batches
from unisono.train.precision import set_tf32, slow_precision
from unisono.train.preconditions import (
    check_consistency,
    check_preconditions,
    settle_precision,
    uneven_shares,
)
from unisono.train.process_setup import Signals, choose_gpu_kernels, keep_freed_memory
from unisono.train.progress import Progress
from unisono.train.run_lock import RunLock, lock_run
from unisono.train.start import check_start, keep_start, recorded_start
from unisono.train.step import warm_up
from unisono.train.supervision import Supervision, Unsupervised, sampling, supervised_group

ChooseStrategy = Callable[[Comm, Settings, Corpus, Notify], tuple[Settings, Chose | None]]
"""Returns settings that name a strategy, and the event for it if it had to be chosen."""

Group = AbstractContextManager[tuple[Comm, Supervision | Unsupervised]]


def as_configured(
    comm: Comm, settings: Settings, corpus: Corpus, notify: Notify
) -> tuple[Settings, Chose | None]:
    """Keep the strategy that the settings name. Only `check` can choose one for "auto"."""
    if settings.sync.strategy == AUTO:
        raise ConfigError(
            f'nothing here can choose a strategy for "{AUTO}"',
            where="sync.strategy",
            fix="name a strategy, or start the run with `unisono train`",
        )
    return settings, None


def run_training(
    settings: Settings,
    notify: Notify = no_notice,
    choose_strategy: ChooseStrategy = as_configured,
    group: Group | None = None,
) -> Iterator[AnyEvent]:
    """Train as `settings` say, alone or with the processes started together with this one.

    Every event is recorded in the run directory before it is yielded. Until there are any,
    `notify` is called with what the start is waiting for.
    """
    with ExitStack() as stack:
        comm, supervision = stack.enter_context(group or supervised_group(settings, notify))
        corpus = all_or_none(
            comm, lambda: open_corpus(Path(settings.corpus.directory), verify=True)
        )
        check_consistency(comm, settings, corpus)
        settings = settle_precision(comm, settings)
        settings = settle_micro_batches(comm, settings)
        check_preconditions(comm, settings, corpus)
        set_tf32(settings.train.tf32, comm.world.device)
        choose_gpu_kernels(comm.world.device, deterministic=settings.train.deterministic)
        keep_freed_memory()
        lock = all_or_none(comm, lambda: _lock(settings, corpus, comm))
        if lock is not None:
            stack.callback(lock.release)
        signals = stack.enter_context(Signals())
        supervision.state("starting")
        settings, choice = choose_strategy(comm, settings, corpus, notify)
        run, world = Path(settings.run), comm.world
        recorder = stack.enter_context(closing(Recorder(run, world.rank, leads=world.leads)))
        stack.enter_context(sampling(comm, settings))
        strategy = strategy_for(settings, comm)
        session, model = build_session(settings, corpus, comm, signals, strategy)
        stack.callback(session.checkpoint_sync.close)
        session = replace(session, section=supervision.section)
        for event in _events(session, model, corpus, choice):
            recorder.write(event)
            supervision.saw(event)
            yield event


def run_with(comm: Comm, settings: Settings) -> Iterator[AnyEvent]:
    """Train in a group of processes that exists already, without supervision."""
    return run_training(settings, group=nullcontext((comm, Unsupervised())))


def _events(
    session: Session, model: TransformerModel, corpus: Corpus, choice: Chose | None
) -> Iterator[AnyEvent]:
    """Start or continue the run, train, test the best checkpoint, and end."""
    comm, restored = session.parts.comm, session.checkpoint_sync.restore()
    start = restored.progress
    yield _started(session, restored, model, corpus)
    if choice is not None:
        yield msgspec.structs.replace(choice, step=start.step)
    for message in filter(None, _warnings(session, restored)):
        yield Warned(time=time.time(), step=start.step, message=message)
    try_longest(session)
    with session.evaluator.compiling.paused():
        nothing = empty_batch().to(device_of(comm))
        warm_up(session.parts.replica, nothing, session.parts.stopwatch)
    began = time.time()
    progress, reason = yield from train(session, start)
    seconds = time.time() - began
    trained = (progress.epoch, progress.position) != (start.epoch, start.position)
    bundle_is_old = trained or not RunDirectory(Path(session.settings.run)).bundle.is_dir()
    if reason != "signal" and comm.any(bundle_is_old):
        with session.section("evaluation"):
            yield from _finish(session, model, corpus)
    yield Ended(time=time.time(), step=progress.step, reason=reason, seconds=seconds)


def _warnings(session: Session, restored: RestoredCheckpoint) -> Iterator[str]:
    world, settings = session.parts.comm.world, session.settings
    yield from (*world.warnings, *restored.troubles)
    if world.leads and world.device != "cpu":
        yield untried_card(torch.cuda.get_device_name(world.device))
    yield slow_precision(session.parts.precision)
    yield uneven_shares(settings.batching, world.size)
    yield idle_strategy(settings.sync, world.size, world.local_size)


def _finish(session: Session, model: TransformerModel, corpus: Corpus) -> Iterator[AnyEvent]:
    """Score the best checkpoint on the test set, and write its bundle.

    A run that started from other weights is compared with them last: it has nothing to lose.
    """
    best = session.checkpoint_sync.restore_best()
    tested, translated = session.evaluator.score_test(best.step)
    if tested is not None:
        yield tested
    all_or_none(session.parts.comm, lambda: _write_bundle(session, model, corpus, best, tested))
    yield from compare_with_start(session, model, corpus, best.step, translated)


def _started(
    session: Session, restored: RestoredCheckpoint, model: TransformerModel, corpus: Corpus
) -> Started:
    world, sync = session.parts.comm.world, session.settings.sync
    facts = STRATEGIES[sync.strategy]
    run = Path(session.settings.run)
    origin = recorded_start(run) if world.leads and session.settings.start.from_ else None
    return Started(
        time=time.time(),
        step=restored.progress.step,
        rank=world.rank,
        size=world.size,
        local_rank=world.local_rank,
        host=os.uname().nodename,
        pid=os.getpid(),
        device=world.device,
        threads=torch.get_num_threads(),
        strategy=sync.strategy if world.size > 1 else "solo",
        parameters=sum(weight.numel() for weight in model.parameters()),
        trained=sum(w.numel() for w in model.parameters() if w.requires_grad),
        start=origin.origin if origin else "",
        start_sha256=origin.sha256 if origin else "",
        updates_per_epoch=session.stream.updates_in(restored.progress.epoch),
        checkpoint=restored.name,
        seconds=restored.progress.seconds,
        sources=mixture(corpus.manifest, session.stream),
        interface=world.interface,
        address=world.address,
        fabric=world.fabric,
        gpu=torch.cuda.get_device_name(world.device) if world.device != "cpu" else "",
        precision=session.parts.precision.kind,
        bits=facts.bits(sync.bits),
        every=facts.every(sync.local_steps),
        bucket_mb=sync.bucket_mb or USUAL_BUCKET_MB,
        phases=sync.phases if facts.quantized else 1,
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


def _lock(settings: Settings, corpus: Corpus, comm: Comm) -> RunLock | None:
    if not comm.world.leads:
        return None
    check_start(settings, corpus)
    lock = lock_run(settings, corpus, describe_environment(_devices()))
    try:
        keep_start(settings, corpus)
    except BaseException:
        lock.release()
        raise
    return lock


def _devices() -> list[str]:
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return names or ["cpu"]
