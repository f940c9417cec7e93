"""`unisono demo`: the whole way from raw text to a report in one command."""

import sys
import time
from pathlib import Path

import click

from unisono.bundle.format import bundle_at
from unisono.cli.corpora import write_text
from unisono.cli.launch import run_command
from unisono.cli.options import PathType, set_option, workers_option
from unisono.cli.pages.progress import sample_text
from unisono.cli.prepare import prepare_for
from unisono.config.load import load_settings
from unisono.config.settings import Settings
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.launch.plan import plan_local
from unisono.launch.slots import workers_here
from unisono.records.events import Sample
from unisono.report.page import write_report
from unisono.report.text import render_text
from unisono.units import duration

SENTENCES_SHOWN = 5


@click.command()
@click.option(
    "--config",
    type=PathType,
    default=Path("configs/demo.toml"),
    show_default=True,
    help="The settings of the run.",
)
@workers_option("Processes to train with; default: one for each GPU, or 2 without GPUs.")
@set_option
def demo(config: Path, workers: int, overrides: tuple[str, ...]) -> None:
    """Prepare the built-in corpus, train, score, translate and report."""
    began = time.monotonic()
    settings = load_settings(config, overrides)
    workers = workers_here(workers, settings.device)
    _say("1. preparing text and corpus")
    _prepare(settings)
    _say(f"2. training with {workers} processes")
    _train(config, overrides, workers)
    _say("3. translating sentences the model has never seen")
    _translate(settings)
    _say("4. answering eleven questions about this run")
    report = write_report(Path(settings.run))
    print(render_text(report))
    print(f"\n{settings.run}/report.html shows the same with plots.")
    print(f"The demo took {duration(time.monotonic() - began)} in all.")


def _prepare(settings: Settings) -> None:
    if settings.data.valid is None:
        raise ConfigError("the demo needs [data.valid]", where="[data]")
    directory = Path(settings.data.valid.source).parent
    if not directory.exists():
        write_text(directory, seed=1, pairs=200_000)
    prepare_for(settings)


def _train(config: Path, overrides: tuple[str, ...], workers: int) -> None:
    began = time.monotonic()
    changes = [word for text in overrides for word in ("--set", text)]
    code = run_command(plan_local(["train", str(config), *changes], workers))
    if code:
        sys.exit(code)
    print(f"training took {duration(time.monotonic() - began)}", file=sys.stderr)


def _translate(settings: Settings) -> None:
    from unisono.bundle.reader import open_bundle

    test = open_corpus(Path(settings.corpus.directory)).split("test")
    sources = test.source_text()[:SENTENCES_SHOWN]
    references = test.target_text()[:SENTENCES_SHOWN]
    translator = open_bundle(bundle_at(Path(settings.run))).translator("cpu")
    translations = translator.translate(sources)
    for texts in zip(sources, references, translations, strict=True):
        print(sample_text(Sample(*texts)))


def _say(title: str) -> None:
    print(f"\n— {title}", file=sys.stderr, flush=True)
