"""The mean of several checkpoints, as a bundle: often better than any one of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from unisono.bundle.format import Description
from unisono.bundle.writer import write_bundle
from unisono.config.load import read_toml, resolve
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus, open_corpus
from unisono.errors import ConfigError, DataError
from unisono.models.transformer import load_model, weight_shapes
from unisono.records.layout import RunDirectory
from unisono.small_files import json_table, read_parsed
from unisono.train.checkpoints import checkpoint


@dataclass(frozen=True)
class MeanSource:
    """A checkpoint, and what its run says about it."""

    path: Path
    step: int
    settings: Settings
    corpus: str


def last_checkpoints(run: Path, count: int) -> list[Path]:
    """Return the newest `count` checkpoints of a run, oldest first; 0 means all."""
    directory = RunDirectory(run).checkpoints
    paths = [directory / name for name in reversed(checkpoint.names(directory))]
    if not paths or len(paths) < count:
        raise ConfigError(
            f"the run has {len(paths)} checkpoints, not {count or 'any'}",
            where=str(directory),
            fix="ask for fewer; a run keeps as many as `checkpoint.keep` says, and the best",
        )
    return paths[-count:]


def sources_of(paths: Sequence[Path]) -> list[MeanSource]:
    """Return the checkpoints at `paths`, verified and found to belong together."""
    sources = [_source(path) for path in paths]
    first = sources[0]
    for other in sources[1:]:
        _refuse_if_different(
            "the model", first, other, first.settings.model, other.settings.model
        )
        _refuse_if_different("the corpus", first, other, first.corpus, other.corpus)
    return sources


def write_mean(sources: Sequence[MeanSource], to: Path) -> Description:
    """Write the bundle of the mean weights of `sources`."""
    newest = max(sources, key=lambda source: source.step)
    settings, corpus = newest.settings, _corpus_of(newest)
    manifest = corpus.manifest
    sizes = manifest.vocabulary, manifest.source_vocabulary
    shapes = weight_shapes(settings.model, *sizes)
    weights = _mean([source.path for source in sources], shapes)
    return write_bundle(
        to,
        model=load_model(settings.model, sizes[0], weights, sizes[1]),
        tokenizers=corpus.tokenizers(),
        normalisation=corpus.normalisation(),
        source_language=manifest.source_language,
        target_language=manifest.target_language,
        decoding=settings.decoding,
        max_pieces=settings.corpus.max_pieces,
        step=newest.step,
        scores={},
    )


def _source(path: Path) -> MeanSource:
    if not path.is_dir():
        raise DataError(
            f"there is no checkpoint {path.name}",
            where=str(path.parent),
            fix="`unisono show RUN` lists them",
        )
    step = checkpoint.verify(path).step
    run = RunDirectory(path.resolve().parents[1])
    settings = resolve(read_toml(run.config), where=str(run.config))
    table = read_parsed(run.corpus, json_table, fix="restore it: it says which corpus to use")
    return MeanSource(path, step, settings, str(table.get("fingerprint")))


def _refuse_if_different(
    what: str, first: MeanSource, other: MeanSource, ours: object, theirs: object
) -> None:
    if ours != theirs:
        raise DataError(
            f"{what} of {other.path} is not that of {first.path}",
            where=str(other.path),
            fix="average checkpoints of one run, or of runs that differ only in their seed",
        )


def _corpus_of(source: MeanSource) -> Corpus:
    corpus = open_corpus(Path(source.settings.corpus.directory))
    if corpus.fingerprint != source.corpus:
        raise DataError(
            "the corpus is not the one the checkpoints were trained on: its fingerprint is "
            f"{corpus.fingerprint[:12]}, theirs {source.corpus[:12]}",
            where=str(corpus.path),
            fix="restore the old corpus: a bundle needs its vocabulary",
        )
    return corpus


def _mean(paths: Sequence[Path], shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    # In double precision, so that the order of the checkpoints makes no difference.
    sums = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    for path in paths:
        weights = checkpoint.load_tensors(path / checkpoint.MODEL)
        found = {name: tuple(weight.shape) for name, weight in weights.items()}
        if found != shapes:
            raise DataError("its weights are not those of the model", where=str(path))
        for name, weight in weights.items():
            sums[name] += weight
    return {name: (total / len(paths)).float() for name, total in sums.items()}
