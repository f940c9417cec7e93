"""Builds the parts of a run from its settings."""

from functools import partial
from pathlib import Path

import torch

from unisono.batching.bpe_dropout import BpeDropout, bpe_dropout_for
from unisono.batching.plan import shares
from unisono.batching.stream import Stream
from unisono.comm.device_stopwatch import stopwatch_for
from unisono.comm.protocol import Comm, Strategy
from unisono.comm.strategies.all_reduce import AllReduce
from unisono.comm.strategies.build import strategy_of
from unisono.comm.strategies.ddp import Ddp
from unisono.config.settings import Settings
from unisono.corpus.manifest import CorpusManifest
from unisono.corpus.reader import Corpus, Split
from unisono.cost_model.strategies import is_local
from unisono.models.transformer import TransformerModel, build_model
from unisono.optim.build import build_optimizer
from unisono.optim.settings import Sgd
from unisono.optim.shared_muon import SharedMuon, share_if_it_pays
from unisono.records.events import MixedSource
from unisono.records.layout import RunDirectory
from unisono.train.averages import Averages
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync
from unisono.train.checksums import broadcast_weights
from unisono.train.compiling import Compiling
from unisono.train.evaluation import EvaluationSplit, Evaluator, spread_evenly
from unisono.train.loop import Session
from unisono.train.precision import Precision, fastest_precision
from unisono.train.process_setup import Signals, all_fit, set_randomness
from unisono.train.start import freeze, load_start
from unisono.train.step import Parts
from unisono.translate.settings import Decoding


def mixture(manifest: CorpusManifest, stream: Stream) -> list[MixedSource]:
    """Return the sources of the training set and their shares of an epoch, if several."""
    blocks, sources = manifest.splits["train"].blocks, stream.sources()
    names = [entry.source.name for entry in manifest.inputs if entry.split == "train"]
    names = names if len(names) == len(blocks) else [block.name for block in blocks]
    mixed = [
        MixedSource(
            name=name, tag=block.tag, pairs=block.pairs, times=source.weight, share=share
        )
        for name, block, source, share in zip(
            names, blocks, sources, shares(sources), strict=True
        )
    ]
    return mixed if len(mixed) > 1 else []


CLEAN_PAIRS = 500  # training pairs that every validation scores without dropout


def build_session(
    settings: Settings, corpus: Corpus, comm: Comm, signals: Signals, strategy: Strategy
) -> tuple[Session, TransformerModel]:
    """Return everything the loop uses, and the model; nothing is written yet."""
    fresh = partial(_fresh_model, settings, corpus, leads=comm.world.leads)
    model = all_fit(comm, settings, lambda: fresh().to(device_of(comm)))
    broadcast_weights(comm, model)
    compiling_of(settings).prepare(model)
    precision = precision_of(settings, comm)
    optimizer = build_optimizer(settings.optimizer, model, precision.optimizer_products)
    directory = RunDirectory(Path(settings.run))
    averages = Averages(model.named_parameters(), settings.train.average)
    keep = settings.checkpoint.keep
    replica = strategy.attach(model, comm)
    where, memory = directory.checkpoints, replica.memory
    checkpoint_sync = CheckpointSync(
        where, keep, comm, model, optimizer, averages, fresh, memory
    )
    stopwatch = stopwatch_for(comm.world.device)
    share_if_it_pays(optimizer, SharedMuon(comm, memory, stopwatch))
    parts = Parts(
        replica=replica,
        comm=comm,
        optimizer=optimizer,
        schedule=settings.schedule,
        seed=settings.seed,
        label_smoothing=settings.train.label_smoothing,
        clip_norm=settings.train.clip_norm,
        word_rate=settings.train.word_rate,
        averages=averages,
        precision=precision,
        stopwatch=stopwatch,
    )
    stream = stream_of(settings, corpus, comm)
    evaluator = _evaluator(settings, corpus, comm, model, stream.split)
    return Session(settings, parts, stream, evaluator, checkpoint_sync, signals), model


def stream_of(settings: Settings, corpus: Corpus, comm: Comm) -> Stream:
    """Return the stream of this process's updates."""
    return Stream(
        corpus.split("train"),
        settings.batching.filled(),
        settings.seed,
        comm.world.rank,
        comm.world.size,
        settings.batching.temperature,
        bpe_dropout_of(settings, corpus),
        comm.world.device,
    )


def strategy_for(settings: Settings, comm: Comm) -> Strategy:
    """Return the strategy by which the processes of `comm` synchronize."""
    if comm.world.size == 1 and settings.train.compile:
        # Compiled layers work in one thread only: torch keeps one record of what it compiled.
        return AllReduce()
    if comm.world.size == 1 and is_local(settings.sync.strategy):
        return Ddp()  # the others are lost: there is nobody to synchronize with
    adaptive = not isinstance(settings.optimizer, Sgd)
    return strategy_of(settings.sync, settings.train.max_steps, adaptive=adaptive)


def _fresh_model(settings: Settings, corpus: Corpus, *, leads: bool) -> TransformerModel:
    """Return the model before its first update; only the leading process reads weights."""
    set_randomness(settings.seed)
    sizes = corpus.manifest.vocabulary, corpus.manifest.source_vocabulary
    model = build_model(settings.model, *sizes)
    if leads and settings.start.from_:
        load_start(model, Path(settings.run))
    freeze(model, settings.start)
    return model


def bpe_dropout_of(settings: Settings, corpus: Corpus) -> BpeDropout | None:
    """Return the BPE-dropout of the run, or None."""
    longest = settings.corpus.max_pieces
    return bpe_dropout_for(
        corpus.tokenizers(), settings.batching.filled(), seed=settings.seed, max_pieces=longest
    )


def _evaluator(
    settings: Settings, corpus: Corpus, comm: Comm, model: TransformerModel, train: Split
) -> Evaluator:
    validation, tokenizer = settings.validation, corpus.tokenizers().target
    tokens = validation.tokens_per_batch
    greedy = Decoding(
        beam=validation.beam,
        length_penalty=settings.decoding.length_penalty,
        length_penalty_form=settings.decoding.length_penalty_form,
    )
    sample, test = spread_evenly(len(train), CLEAN_PAIRS), None
    if corpus.has("test"):
        # A beam multiplies the rows of a batch: smaller batches keep the memory the same.
        per_batch = max(1, tokens // settings.decoding.beam)
        test = EvaluationSplit(corpus.split("test"), tokenizer, per_batch, settings.decoding)
    return Evaluator(
        model=model,
        comm=comm,
        run=Path(settings.run),
        valid=EvaluationSplit(corpus.split("valid"), tokenizer, tokens, greedy),
        training=EvaluationSplit(train, tokenizer, tokens, greedy, sample),
        test=test,
        bleu=validation.bleu,
        samples=validation.samples,
        compiling=compiling_of(settings),
    )


def device_of(comm: Comm) -> torch.device:
    """Return the device of this process."""
    return torch.device(comm.world.device)


def compiling_of(settings: Settings) -> Compiling:
    """Return whether to compile the layers."""
    return Compiling(settings.train.compile)


def precision_of(settings: Settings, comm: Comm) -> Precision:
    """Return the precision in which this process computes."""
    device, kind = comm.world.device, settings.train.precision
    # Only a process that computes alone has not settled it.
    settled = fastest_precision(device, settings.model) if kind == "auto" else kind
    return Precision(settled, device, settings.train.compile)
