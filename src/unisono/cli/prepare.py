"""`unisono prepare`: raw text to corpus."""

import os
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from unisono.cli.options import config_argument, set_option
from unisono.config.load import load_settings
from unisono.config.settings import Settings
from unisono.corpus.manifest import Manifest
from unisono.corpus.reader import open_corpus
from unisono.prepare.build import prepare_corpus
from unisono.prepare.progress import Progress
from unisono.units import amount_of_bytes, duration

_EXAMPLE_WIDTH = 14  # of either side, so that a line of the table has 78 characters


@click.command()
@config_argument
@set_option
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="the cores this process may use",
    help="How many processes clean and encode; 1 starts no other.",
)
@click.option(
    "--invalid",
    type=click.Choice(["drop", "fail"]),
    help="What to do with lines that are no text in UTF-8; overrides corpus.invalid.",
)
def prepare(
    config: Path, overrides: tuple[str, ...], workers: int, invalid: str | None
) -> None:
    """Clean the text that CONFIG names, learn subwords, and write a corpus."""
    chosen = [f"corpus.invalid={invalid}"] if invalid else []
    prepare_for(load_settings(config, [*overrides, *chosen]), workers=workers)


def prepare_for(settings: Settings, workers: int = 0) -> None:
    """Prepare the corpus of `settings`, with progress on standard error.

    Without a number of workers there are as many as there are cores.
    """
    began, directory = time.monotonic(), settings.corpus.directory
    count = workers or len(os.sched_getaffinity(0))
    last = draw(prepare_corpus(settings.data, settings.corpus, workers=count))
    if last.stage == "up to date":
        print(f"corpus {directory} is there and up to date", file=sys.stderr)
        return
    if last.stage == "weights changed":
        print(f"corpus {directory} is up to date; only weights changed", file=sys.stderr)
        return
    if last.stage == "added":
        kept = last.total - last.done
        what = (
            f"{kept} sources re-used, {last.done} added; the pieces stay those of {directory}"
        )
        print(what, file=sys.stderr)
    manifest = open_corpus(Path(directory)).manifest
    took = duration(time.monotonic() - began)
    print("\n".join(_summary(directory, manifest, took)), file=sys.stderr)


def _summary(directory: str, manifest: Manifest, took: str) -> Iterator[str]:
    train = manifest.splits["train"]
    dropped = sum(drop.count for drop in manifest.dropped.values())
    size = sum(entry.source.text_bytes + entry.target.text_bytes for entry in manifest.inputs)
    sizes = [manifest.source_vocabulary, manifest.vocabulary][manifest.joint :]
    vocabulary = " + ".join(f"{count:,}" for count in sizes)
    yield (
        f"corpus {directory}: {train.pairs:,} training pairs "
        f"({dropped:,} dropped), {train.source_tokens:,} + {train.target_tokens:,} pieces, "
        f"vocabulary {vocabulary}, from {amount_of_bytes(size)} of text in {took}"
    )
    unknown = train.source_unknown + train.target_unknown
    if unknown:
        share = unknown / (train.source_tokens + train.target_tokens)
        yield f"unknown pieces: {unknown:,} ({100 * share:.2g} %)"
    if dropped:
        yield f"{'dropped':24}{'pairs':>12}{'share':>9}  for example"
    for reason, drop in sorted(manifest.dropped.items(), key=lambda item: -item[1].count):
        share = drop.count / manifest.read_pairs
        example = " | ".join(_clipped(side, _EXAMPLE_WIDTH) for side in drop.examples[0])
        yield f"{reason:24}{drop.count:>12,}{100 * share:>7.2f} %  {example}"


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def draw(progress: Generator[Progress, None, None]) -> Progress:
    """Draw progress on a terminal, say nothing in a log file; return the last."""
    last = Progress("", 0, 0)
    console = Console(file=sys.stderr)
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
            for at in steps:
                if at.stage != last.stage:  # a new task: its clock begins at 0
                    bar.remove_task(task)
                    task = bar.add_task(at.stage, total=at.total or None)
                bar.update(task, completed=at.done, total=at.total or None)
                last = at
    return last
