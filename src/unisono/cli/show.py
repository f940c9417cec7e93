"""`unisono show`: what is this corpus, run, checkpoint or bundle?"""

import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from unisono.bundle.format import DESCRIPTION, Description, read, verify
from unisono.cli.options import PathType
from unisono.corpus.reader import Corpus, open_corpus
from unisono.diagnose.diagnosis import diagnose
from unisono.errors import DataError
from unisono.models.size import parameter_count
from unisono.records.layout import RunDirectory
from unisono.records.view import read_run
from unisono.units import amount_of_bytes

FIRST_PAIRS = 3
LONGEST_LINE = 100


@click.command()
@click.argument("path", type=PathType)
def show(path: Path) -> None:
    """Say what the corpus, run, checkpoint or bundle at PATH is and what is in it."""
    for name, value in _facts(path):
        print(f"{name:25}{value}")


def _facts(path: Path) -> Iterator[tuple[str, str]]:
    if RunDirectory(path).config.is_file():
        return _run_facts(path)
    if (path / DESCRIPTION).is_file():
        return _bundle_facts(path)
    if (path / "progress.json").is_file():
        return _checkpoint_facts(path)
    if (path / "manifest.json").is_file():
        return _corpus_facts(open_corpus(path, verify=True))
    raise DataError(
        f"{path} is not a corpus, run, checkpoint or bundle",
        where=str(path),
        fix="name a directory such as corpora/demo, runs/demo, runs/demo/bundle or "
        "runs/demo/checkpoints/step-0001000",
    )


def _corpus_facts(corpus: Corpus) -> Iterator[tuple[str, str]]:
    manifest = corpus.manifest
    yield "corpus", f"{manifest.source_language}→{manifest.target_language}, verified"
    yield "fingerprint", manifest.fingerprint
    yield "vocabulary", f"{manifest.vocabulary:,} pieces ({manifest.tokenizer})"
    for given in manifest.inputs:
        for file in (given.source, given.target):
            size = amount_of_bytes(file.text_bytes)
            yield f"read for {given.split}", f"{file.name}: {size}, {file.lines:,} lines"
    for name, split in manifest.splits.items():
        tokens = f"{split.source_tokens:,} + {split.target_tokens:,} pieces"
        yield name, f"{split.pairs:,} pairs, {tokens}, {amount_of_bytes(split.text_bytes)}"
    for reason, dropped in manifest.dropped.items():
        yield "dropped", f"{dropped.count:,} {reason}"
        for source, target in dropped.examples:
            yield "", f"{_short(source)} | {_short(target)}"
    yield from _first_pairs(corpus)


def _first_pairs(corpus: Corpus) -> Iterator[tuple[str, str]]:
    for name in ("valid", "test"):
        if corpus.has(name):
            split = corpus.split(name)
            pairs = zip(split.source_text(), split.target_text(), strict=True)
            for source, target in list(pairs)[:FIRST_PAIRS]:
                yield f"{name} begins", f"{_short(source)} | {_short(target)}"


def _run_facts(path: Path) -> Iterator[tuple[str, str]]:
    view = read_run(path)
    report = diagnose(view, time.time())
    yield "run", report.headline
    for answer in report.answers:
        yield answer.id, f"[{answer.verdict}] {answer.summary}"
    best = RunDirectory(path).checkpoints / "best"
    if best.is_file():
        yield "best checkpoint", best.read_text("utf-8").strip()


def _checkpoint_facts(path: Path) -> Iterator[tuple[str, str]]:
    from unisono.train.checkpoint import PROGRESS
    from unisono.train.checkpoint import verify as verify_checkpoint

    manifest = verify_checkpoint(path)
    yield "checkpoint", f"step {manifest.step:,}, verified"
    for name, entry in manifest.files.items():
        yield name, f"{amount_of_bytes(entry.bytes)}  sha256 {entry.sha256}"
    progress = msgspec.json.decode((path / PROGRESS).read_bytes(), type=dict[str, object])
    for name, value in progress.items():
        yield name.replace("_", " "), _plain(value)


def _bundle_facts(path: Path) -> Iterator[tuple[str, str]]:
    verify(path)
    about = read(path / DESCRIPTION, Description)
    model = about.model
    yield "bundle", f"{about.source_language}→{about.target_language}, verified"
    yield "made by", f"{about.created_with}, from the checkpoint of step {about.step:,}"
    yield "parameters", f"{parameter_count(model, about.vocabulary):,}"
    yield (
        "model",
        f"width {model.width}, {model.heads} heads, {model.encoder_layers} + "
        f"{model.decoder_layers} layers, vocabulary {about.vocabulary:,}",
    )
    for name, value in about.scores.items():
        yield name.replace("_", " "), f"{value:.4f}"


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"
