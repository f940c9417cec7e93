"""`unisono prepare`: raw text to corpus."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from unisono.cli.options import config_argument, set_option
from unisono.config.load import load_settings
from unisono.config.settings import Settings
from unisono.corpus.reader import open_corpus
from unisono.prepare.build import prepare_corpus
from unisono.prepare.progress import Progress
from unisono.units import amount_of_bytes, duration


@click.command()
@config_argument
@set_option
def prepare(config: Path, overrides: tuple[str, ...]) -> None:
    """Clean the text that CONFIG names, learn subwords, and write a corpus."""
    prepare_for(load_settings(config, overrides))


def prepare_for(settings: Settings) -> None:
    """Prepare the corpus of `settings`, with progress on standard error."""
    began = time.monotonic()
    if draw(prepare_corpus(settings.data, settings.corpus)) == "up to date":
        print(f"corpus {settings.corpus.directory} is there and up to date", file=sys.stderr)
        return
    manifest = open_corpus(Path(settings.corpus.directory)).manifest
    train = manifest.splits["train"]
    dropped = sum(drop.count for drop in manifest.dropped.values())
    size = sum(entry.source.text_bytes + entry.target.text_bytes for entry in manifest.inputs)
    print(
        f"corpus {settings.corpus.directory}: {train.pairs:,} training pairs "
        f"({dropped:,} dropped), {train.source_tokens:,} + {train.target_tokens:,} pieces, "
        f"vocabulary {manifest.vocabulary:,}, from {amount_of_bytes(size)} of text "
        f"in {duration(time.monotonic() - began)}",
        file=sys.stderr,
    )


def draw(progress: Iterable[Progress]) -> str:
    """Draw progress on a terminal, say nothing in a log file; return the last stage."""
    stage = ""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        for at in progress:
            stage = at.stage
        return stage
    columns = (TextColumn("{task.description:24}"), BarColumn(), TaskProgressColumn())
    with Bar(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("preparing", total=None)
        for at in progress:
            stage = at.stage
            bar.update(task, description=stage, completed=at.done, total=at.total or None)
    return stage
