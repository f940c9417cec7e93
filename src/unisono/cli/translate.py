"""`unisono translate`: standard input to standard output."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from unisono.bundle.format import bundle_at
from unisono.cli.options import PathType
from unisono.errors import ConfigError, DataError

CUTS_TOLD = 5


@click.command()
@click.option(
    "--model",
    "models",
    type=PathType,
    required=True,
    multiple=True,
    help="A bundle, or a run directory that has one; several translate together.",
)
@click.option(
    "--beam", type=click.IntRange(1), default=None, help="Prefixes kept; 1 is greedy."
)
@click.option("--length-penalty", type=click.FloatRange(0), default=None)
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True
)
@click.option(
    "--batch-lines",
    type=click.IntRange(1),
    default=None,
    help="Lines read before any is written.  [default: 1000, or 250 a worker if that is more]",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=None,
    help="Processes that translate, each on one core.  [default: one a core; on a GPU, one]",
)
def translate(
    models: tuple[Path, ...],
    beam: int | None,
    length_penalty: float | None,
    device: str,
    batch_lines: int | None,
    workers: int | None,
) -> None:
    """Translate standard input to standard output, line by line.

    The output has as many lines as the input, in the same order; an empty line gives an
    empty line. A line longer than the model was trained for is translated in parts, and
    standard error tells which. Several models must have been trained on the same pieces;
    each next word is the one that they find likeliest on average.
    """
    # Workers have one thread each, also in the library that numpy multiplies with.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from unisono.bundle.reader import ensemble, open_bundle
    from unisono.comm.bootstrap.join import pick_device

    place = pick_device(device)
    bundles = [open_bundle(bundle_at(path)) for path in models]
    changes = {"beam": beam, "length_penalty": length_penalty}
    given = {name: value for name, value in changes.items() if value is not None}
    decoding = msgspec.structs.replace(bundles[0].description.decoding, **given)
    translator = ensemble(bundles, place, decoding)
    workers = _workers(workers, place)
    ahead = batch_lines or max(1000, 250 * workers)
    cut = 0
    stream = translator.translate_stream(_lines(), ahead, workers)
    for number, line in enumerate(stream, start=1):
        sys.stdout.buffer.write(line.text.encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()
        if line.parts > 1:
            cut += 1
            _tell_of_cut(cut, number, line.parts, translator.max_pieces)
    if cut > CUTS_TOLD:
        _say(f"{cut:,} lines in all were longer than {translator.max_pieces} pieces")


def _tell_of_cut(cut: int, number: int, parts: int, longest: int) -> None:
    if cut <= CUTS_TOLD:
        _say(f"line {number} was longer than {longest} pieces; translated in {parts} parts")


def _workers(wanted: int | None, device: str) -> int:
    if device == "cpu":
        return wanted or len(os.sched_getaffinity(0))
    if wanted and wanted > 1:
        raise ConfigError(
            f"{wanted} workers cannot share a GPU", where="--workers", fix="leave it out"
        )
    return 1


def _say(message: str) -> None:
    click.echo(f"note: {message}", err=True)


def _lines() -> Iterator[str]:
    # Bytes split at \n only: other separators of Unicode are part of a line.
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            yield raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"line {number} is not UTF-8: {error.reason}",
                where="standard input",
                fix="convert it first; nothing from this batch of lines on was translated",
            ) from error
