"""`unisono show`: what is this corpus, run, checkpoint or bundle?"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import click

from unisono.bundle.format import DESCRIPTION, Description, read_json, verify_bundle
from unisono.cli.options import PathType
from unisono.cli.pages.corpus import corpus_page
from unisono.corpus.manifest import MANIFEST, manifest_bytes
from unisono.corpus.reader import open_corpus
from unisono.datasets.corpus_directory import LOCK, read_lock
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.evidence.adaptation import adaptation_words
from unisono.errors import DataError
from unisono.models.settings import parameter_count
from unisono.printable import printable, printable_json
from unisono.records.layout import RunDirectory
from unisono.records.status import read_status
from unisono.records.view import read_run
from unisono.small_files import json_table, read_line, read_parsed
from unisono.units import amount_of_bytes


@click.command()
@click.argument("path", type=PathType)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(path: Path, as_json: bool) -> None:
    """Describe the corpus, run, checkpoint or bundle at PATH and what is in it."""
    if _is_corpus(path):
        corpus = open_corpus(path, verify=True)
        lines = corpus_page(corpus)
        manifest = printable_json(manifest_bytes(corpus.manifest).decode())
        print(manifest if as_json else "\n".join(lines))
    elif as_json:
        print(printable_json(json.dumps(dict(_facts(path)), indent=2, ensure_ascii=False)))
    else:
        for name, value in _facts(path):
            print(printable(f"{name:25}{value}"))


def _is_corpus(path: Path) -> bool:
    others = (RunDirectory(path).config, path / DESCRIPTION, path / "progress.json")
    return (path / MANIFEST).is_file() and not any(other.is_file() for other in others)


def _facts(path: Path) -> Iterator[tuple[str, str]]:
    if RunDirectory(path).config.is_file():
        return _run_facts(path)
    if (path / DESCRIPTION).is_file():
        return _bundle_facts(path)
    if (path / "progress.json").is_file():
        return _checkpoint_facts(path)
    if (path / LOCK).is_file():
        return _text_facts(path)
    raise DataError(
        f"{path} is not a corpus, run, checkpoint or bundle",
        where=str(path),
        fix="name a directory such as corpora/demo, runs/demo, runs/demo/bundle or "
        "runs/demo/checkpoints/step-0001000",
    )


def _text_facts(path: Path) -> Iterator[tuple[str, str]]:
    lock = read_lock(path)
    yield "text", f"downloaded by `unisono corpora get`: {lock.corpus}; prepare it first"
    for text in lock.texts.values():
        size = f"{text.lines:,} lines, {amount_of_bytes(text.bytes)}"
        yield text.name, f"{size}, of {text.set} ({text.role})"


def _run_facts(path: Path) -> Iterator[tuple[str, str]]:
    view = read_run(path)
    for sentence in view.damaged:
        yield "damaged", sentence
    report = diagnose(view, time.time())
    yield "run", report.headline
    if report.adaptation:
        yield "started from", " ".join(adaptation_words(report.adaptation))
    status = read_status(RunDirectory(path))
    if status is not None:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.time))
        yield "status", f"{status.state} at step {status.step:,} ({moment}) {status.message}"
    for answer in report.answers:
        yield answer.id, f"[{answer.verdict}] {answer.summary}"
    best = RunDirectory(path).checkpoints / "best"
    if best.is_file():
        yield "best checkpoint", read_line(best) or "unknown: the file cannot be read"


def _checkpoint_facts(path: Path) -> Iterator[tuple[str, str]]:
    from unisono.train.checkpoints.checkpoint import PROGRESS
    from unisono.train.checkpoints.checkpoint import verify as verify_checkpoint

    manifest = verify_checkpoint(path)
    yield "checkpoint", f"step {manifest.step:,}, verified"
    for name, entry in manifest.files.items():
        yield name, f"{amount_of_bytes(entry.bytes)}  sha256 {entry.sha256}"
    progress = read_parsed(path / PROGRESS, json_table)
    for name, value in progress.items():
        yield name.replace("_", " "), _plain(value)


def _bundle_facts(path: Path) -> Iterator[tuple[str, str]]:
    verify_bundle(path)
    about = read_json(path / DESCRIPTION, Description)
    model = about.model
    yield "bundle", f"{about.source_language}→{about.target_language}, verified"
    yield "made by", f"{about.created_with}, from the checkpoint of step {about.step:,}"
    yield "parameters", f"{parameter_count(model, about.vocabulary, about.source_vocabulary):,}"
    yield (
        "model",
        f"width {model.width}, {model.heads} heads, {model.encoder_layers} + "
        f"{model.decoder_layers} layers",
    )
    own = f"{about.source_vocabulary:,} source and " if about.source_vocabulary else ""
    yield "vocabulary", f"{own}{about.vocabulary:,} {'target ' if own else ''}pieces"
    if about.tags:
        yield "tags", " ".join(about.tags)
    options = {"plain quotes": about.plain_quotes, "lower case": about.lowercase}
    if chosen := [name for name, on in options.items() if on]:
        yield "text", f"is translated in {' and '.join(chosen)}"
    yield from _scores(about)


def _scores(about: Description) -> Iterator[tuple[str, str]]:
    scores = about.scores
    for name, value in scores.items():
        if name.endswith(("_low", "_high")):
            continue
        text = f"{value:.4f}"
        if name.endswith("bleu"):
            low, high = (scores.get(f"{name}_{end}", -1.0) for end in ("low", "high"))
            within = f" ({low:.2f} to {high:.2f}, 95 % interval)" if low >= 0 else ""
            signature = about.bleu_signature or "signature not recorded"
            text = f"{value:.2f}{within}  {signature}"
        yield name.replace("_", " "), text


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
