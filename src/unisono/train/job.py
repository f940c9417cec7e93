"""The one place that builds the parts of a run and sets them going."""

import os
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec
import torch

from unisono.batching.collate import nothing_to_learn
from unisono.batching.respelling import Respelling, respelling_for
from unisono.batching.stream import Stream
from unisono.bundle.writer import write_bundle
from unisono.comm.all_reduce import AllReduce
from unisono.comm.join import join
from unisono.comm.lost import how_contact_was_lost
from unisono.comm.protocol import Comm, Strategy
from unisono.comm.strategies import strategy_of
from unisono.comm.together import all_or_none, check_same
from unisono.comm.waiting import Tell, say_nothing
from unisono.config.settings import Settings
from unisono.config.write import to_toml
from unisono.corpus.reader import Corpus, open_corpus
from unisono.errors import LostError
from unisono.models.transformer import TransformerModel, build_model
from unisono.optim.build import build_optimizer
from unisono.records.environment import describe_environment
from unisono.records.events import AnyEvent, Ended, Started, StepTaken, Tested, Warned
from unisono.records.layout import RunDirectory
from unisono.records.recorder import Recorder
from unisono.train.averages import Averages
from unisono.train.claim import Claim, claim
from unisono.train.compiling import Compiling, check_compiler
from unisono.train.examine import Examiner
from unisono.train.keeper import Found, Keeper
from unisono.train.loop import Session, train
from unisono.train.memory import keep_freed_memory
from unisono.train.mixture import mixture
from unisono.train.precision import Precision, check_precision, set_tf32
from unisono.train.progress import Progress
from unisono.train.randomness import set_randomness
from unisono.train.sampling import sampling
from unisono.train.sharing import uneven_shares
from unisono.train.signals import Signals
from unisono.train.step import Parts, warm_up
from unisono.train.validate import Examination
from unisono.train.watched import Section, Watched, unwatched
from unisono.translate.settings import Decoding
from unisono.units import seconds_of


def run_training(settings: Settings, tell: Tell = say_nothing) -> Iterator[AnyEvent]:
    """Train as `settings` say, alone or with the processes started with this one.

    Every event is recorded in the run directory before it is yielded. Before there can be
    any, `tell` is told what the start waits for.
    """
    comm = join(
        settings.device,
        seconds_of(settings.sync.timeout),
        start_seconds=seconds_of(settings.sync.start_timeout),
        interface=settings.sync.interface,
        tell=tell,
    )
    try:
        with Watched(comm, settings) as watched:
            for event in run_with(comm, settings, watched):
                watched.saw(event)
                yield event
    except RuntimeError as error:  # before anybody was watched
        how = how_contact_was_lost(error)
        if not how:
            raise
        raise LostError(
            f"process {comm.world.rank} lost contact with another: {how}"
        ) from error
    finally:
        comm.close()


def run_with(
    comm: Comm, settings: Settings, watched: Watched | None = None
) -> Iterator[AnyEvent]:
    """Train as `settings` say together with the processes of `comm`."""
    corpus = all_or_none(
        comm, lambda: open_corpus(Path(settings.corpus.directory), verify=True)
    )
    check_same(comm, _facts(settings, corpus))
    all_or_none(comm, lambda: check_precision(_precision(settings, comm)))
    all_or_none(comm, lambda: check_compiler(_compiling(settings), comm.world.device))
    all_or_none(comm, lambda: _respelling(settings, corpus))  # refused here, if at all
    set_tf32(settings.train.tf32, comm.world.device)
    keep_freed_memory()
    claimed = all_or_none(comm, lambda: _claim(settings, corpus, comm))
    if watched is not None:
        watched.state("starting")
    try:
        yield from _run(settings, corpus, comm, watched.section if watched else unwatched)
    finally:
        if claimed is not None:
            claimed.release()


def _run(
    settings: Settings, corpus: Corpus, comm: Comm, section: Section
) -> Iterator[AnyEvent]:
    recorder = Recorder(Path(settings.run), comm.world.rank, leads=comm.world.leads)
    try:
        with Signals() as signals, sampling(comm, settings):
            for event in _events(settings, corpus, comm, signals, section):
                recorder.write(event)
                yield event
    finally:
        recorder.close()


def _events(
    settings: Settings, corpus: Corpus, comm: Comm, signals: Signals, section: Section
) -> Iterator[AnyEvent]:
    built, model = _session(settings, corpus, comm, signals)
    session = replace(built, section=section)
    found = session.keeper.restore()
    started = _started(session, found, model)
    yield msgspec.structs.replace(started, sources=mixture(corpus.manifest, session.stream))
    uneven = uneven_shares(settings.batching, comm.world.size)
    odd = comm.world.warnings
    for trouble in (*odd, *found.troubles, *([uneven] if uneven else [])):
        yield Warned(time=time.time(), step=found.progress.step, message=trouble)
    with session.examiner.compiling.paused():
        nothing = nothing_to_learn().to(_device(comm))
        warm_up(session.parts.replica, nothing, session.parts.watch)
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


def _session(
    settings: Settings, corpus: Corpus, comm: Comm, signals: Signals
) -> tuple[Session, TransformerModel]:
    model = _fresh_model(settings, corpus).to(_device(comm))
    _compiling(settings).prepare(model)
    optimizer = build_optimizer(settings.optimizer, model)
    directory = RunDirectory(Path(settings.run))
    averages = Averages(model.named_parameters(), settings.train.average)
    keep = settings.checkpoint.keep
    fresh = partial(_fresh_model, settings, corpus)
    keeper = Keeper(directory.checkpoints, keep, comm, model, optimizer, averages, fresh)
    parts = Parts(
        replica=_strategy(settings, comm).attach(model, comm),
        comm=comm,
        optimizer=optimizer,
        schedule=settings.schedule,
        seed=settings.seed,
        label_smoothing=settings.train.label_smoothing,
        clip_norm=settings.train.clip_norm,
        averages=averages,
        precision=_precision(settings, comm),
    )
    world = comm.world
    stream = Stream(
        corpus.split("train"),
        settings.batching,
        settings.seed,
        world.rank,
        world.size,
        settings.batching.temperature,
        _respelling(settings, corpus),
    )
    examiner = _examiner(settings, corpus, comm, model)
    return Session(settings, parts, stream, examiner, keeper, signals), model


def _strategy(settings: Settings, comm: Comm) -> Strategy:
    # Compiled layers are for one thread: torch keeps one record of what it has compiled.
    alone = comm.world.size == 1 and settings.train.compile
    return AllReduce() if alone else strategy_of(settings.sync)


def _fresh_model(settings: Settings, corpus: Corpus) -> TransformerModel:
    set_randomness(settings.seed)
    sizes = corpus.manifest.vocabulary, corpus.manifest.source_vocabulary
    return build_model(settings.model, *sizes)


def _respelling(settings: Settings, corpus: Corpus) -> Respelling | None:
    longest = settings.corpus.max_pieces
    return respelling_for(
        corpus.tokenizers(), settings.batching, seed=settings.seed, max_pieces=longest
    )


def _examiner(
    settings: Settings, corpus: Corpus, comm: Comm, model: TransformerModel
) -> Examiner:
    validation, tokenizer = settings.validation, corpus.tokenizers().target
    tokens = validation.tokens_per_batch
    greedy = Decoding(beam=validation.beam, length_penalty=settings.decoding.length_penalty)
    test = None
    if corpus.has("test"):
        # A beam multiplies the rows of a batch: keep the memory of a search as it was.
        per_batch = max(1, tokens // settings.decoding.beam)
        test = Examination(corpus.split("test"), tokenizer, per_batch, settings.decoding)
    return Examiner(
        model=model,
        comm=comm,
        run=Path(settings.run),
        valid=Examination(corpus.split("valid"), tokenizer, tokens, greedy),
        test=test,
        bleu=validation.bleu,
        samples=validation.samples,
        compiling=_compiling(settings),
    )


def _started(session: Session, found: Found, model: TransformerModel) -> Started:
    world = session.parts.comm.world
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
        strategy=session.settings.sync.strategy if world.size > 1 else "solo",
        parameters=sum(weight.numel() for weight in model.parameters()),
        updates_per_epoch=session.stream.updates_in(found.progress.epoch),
        checkpoint=found.name,
        seconds=found.progress.seconds,
        interface=world.interface,
        address=world.address,
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
    )


def _claim(settings: Settings, corpus: Corpus, comm: Comm) -> Claim | None:
    if not comm.world.leads:
        return None
    return claim(settings, corpus, describe_environment(_devices()))


def _facts(settings: Settings, corpus: Corpus) -> dict[str, str]:
    """Return what must be the same on all processes."""
    return {
        "the version of unisono": version("unisono"),
        "the version of torch": str(torch.__version__),
        **{f"the setting {name}": value for name, value in _spelt_out(settings)},
        "the corpus": corpus.fingerprint[:16],
    }


def _spelt_out(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield every setting with its value, as the run's config.toml has them."""
    tables = tomllib.loads(to_toml(settings))
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", repr(inner)) for key, inner in value.items())
        else:
            yield name, repr(value)


def _devices() -> list[str]:
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return names or ["cpu"]


def _device(comm: Comm) -> torch.device:
    return torch.device(comm.world.device)


def _compiling(settings: Settings) -> Compiling:
    return Compiling(settings.train.compile)


def _precision(settings: Settings, comm: Comm) -> Precision:
    return Precision(settings.train.precision, comm.world.device)
