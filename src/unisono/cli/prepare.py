"""`unisono prepare`: from raw text to a corpus."""

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from rich.progress import (
    BarColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from unisono.cli.options import PathType, config_argument, set_option
from unisono.cli.pages.console import PrintableConsole
from unisono.config.load import load_settings
from unisono.config.settings import Settings
from unisono.units import amount_of_bytes, duration

_WIDTH = 80  # of a line if there is no terminal

Progress = tuple[str, int, int]  # a stage, and how much of it is done, of how much


@click.command()
@config_argument
@set_option
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="the cores this process may use",
    help="Processes that clean and encode the text; with 1 this process does it all.",
)
@click.option(
    "--invalid",
    type=click.Choice(["drop", "fail"]),
    help="What to do with lines that are not valid UTF-8; overrides corpus.invalid.",
)
@click.option(
    "--like",
    type=PathType,
    help="A run, bundle or Hugging Face directory whose pieces encode the text, in place of "
    "new ones. Default: what [start] names.",
)
def prepare(
    config: Path,
    overrides: tuple[str, ...],
    workers: int,
    invalid: str | None,
    like: Path | None,
) -> None:
    """Clean the text that CONFIG names, learn subwords, and write a corpus."""
    chosen = [f"corpus.invalid={invalid}"] if invalid else []
    settings = load_settings(config, [*overrides, *chosen], training=False)
    prepare_for(settings, workers=workers, like=like)


def prepare_for(settings: Settings, workers: int = 0, like: Path | None = None) -> None:
    """Prepare the corpus of `settings`, with progress on standard error.

    Without a number of workers there are as many as cores.
    """
    from unisono.corpus.reader import open_corpus

    began, directory = time.monotonic(), settings.corpus.directory
    count = workers or len(os.sched_getaffinity(0))
    stage, done, total = show_progress(_stages(settings, count, like))
    if stage == "up to date":
        print(f"corpus {directory} is up to date", file=sys.stderr)
        return
    if stage == "weights changed":
        print(f"corpus {directory} is up to date; only its weights changed", file=sys.stderr)
        return
    if stage == "added":
        kept = total - done
        sources = "source" if kept == 1 else "sources"
        what = f"{kept} {sources} reused, {done} added"
        print(f"{what}; {directory} keeps its vocabulary", file=sys.stderr)
    manifest = open_corpus(Path(directory)).manifest
    took = duration(time.monotonic() - began)
    width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stderr.isatty() else _WIDTH
    print("\n".join(_summary(directory, manifest, took, width)), file=sys.stderr)


def _stages(
    settings: Settings, workers: int, like: Path | None
) -> Generator[Progress, None, None]:
    from unisono.bundle.pieces import pieces_of
    from unisono.prepare.build import prepare_corpus

    origin = like or settings.start.from_
    pieces = pieces_of(Path(origin)) if origin else None
    steps = prepare_corpus(settings.data, settings.corpus, workers=workers, like=pieces)
    with closing(steps):
        for step in steps:
            yield step.stage, step.done, step.total


def _summary(directory: str, manifest: Any, took: str, width: int) -> Iterator[str]:
    train = manifest.splits["train"]
    dropped = sum(drop.count for drop in manifest.dropped_from(training=True).values())
    size = sum(entry.source.text_bytes + entry.target.text_bytes for entry in manifest.inputs)
    vocabulary = " + ".join(f"{count:,}" for count in _vocabularies(manifest))
    origins = {"given": " (from pieces_model)", "like": " (inherited)"}
    given = origins.get(manifest.learning.algorithm, "")
    yield (
        f"corpus {directory}: {train.pairs:,} training pairs "
        f"({dropped:,} dropped), {train.source_tokens:,} + {train.target_tokens:,} pieces, "
        f"vocabulary {vocabulary}{given}, from {amount_of_bytes(size)} of text in {took}"
    )
    wanted = manifest.settings.get("vocabulary", 0)
    if not given and min(_vocabularies(manifest)) < wanted:
        yield f"the text is too small for a vocabulary of {wanted:,} pieces"
    unknown = train.source_unknown + train.target_unknown
    if unknown:
        share = unknown / (train.source_tokens + train.target_tokens)
        yield f"unknown pieces: {unknown:,} ({100 * share:.2g} %)"
    yield from _drops(manifest, width)


def _vocabularies(manifest: Any) -> list[int]:
    own = [manifest.source_vocabulary] if manifest.source_vocabulary else []
    return [*own, manifest.vocabulary]


def _drops(manifest: Any, width: int) -> Iterator[str]:
    """Yield a table of the reasons, with an example of two lines below each."""
    from unisono.cli.pages.corpus import short

    training, total = manifest.dropped_from(training=True), manifest.read_training_pairs
    held_out = manifest.dropped_from(training=False)
    if manifest.dropped:
        yield f"{'dropped':24}{'pairs':>12}{'share':>9}  (of {total:,} training pairs)"
    for reason, drop in (training | held_out).items():
        share = f"{100 * drop.count / total:>7.2f} %" if reason in training else ""
        yield f"{reason:24}{drop.count:>12,}{share}"
        for side in drop.examples[0]:
            yield f"    | {short(side, width - 7)}"


def show_progress(progress: Generator[Progress, None, None]) -> Progress:
    """Show progress on a terminal, and nothing in a log file; return the last stage."""
    last: Progress = ("", 0, 0)
    console = PrintableConsole(sys.stderr)
    with closing(progress) as steps:
        if not console.is_terminal:
            return deque(steps, maxlen=1)[0]
        columns = (
            TextColumn("{task.description:16}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Bar(*columns, console=console, transient=True) as bar:
            task = bar.add_task("preparing", total=None)
            for stage, done, total in steps:
                if stage != last[0]:  # a new task, so that its clock starts at 0
                    bar.remove_task(task)
                    task = bar.add_task(stage, total=total or None)
                bar.update(task, completed=done, total=total or None)
                last = stage, done, total
    return last
