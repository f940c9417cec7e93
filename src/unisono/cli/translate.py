"""`unisono translate`: translate standard input to standard output."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from unisono.bundle.format import bundle_at
from unisono.cli.options import PathType
from unisono.errors import ConfigError, DataError

SPLITS_REPORTED = 5


@click.command()
@click.option(
    "--model",
    "models",
    type=PathType,
    required=True,
    multiple=True,
    help="A bundle, or a finished run; give several for an ensemble.",
)
@click.option("--beam", type=click.IntRange(1), default=None, help="Beam size; 1 is greedy.")
@click.option(
    "--length-penalty",
    type=click.FloatRange(0),
    default=None,
    help="Exponent of the length penalty; higher favours longer translations.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where to compute; auto takes a GPU if there is one.",
)
@click.option(
    "--batch-lines",
    type=click.IntRange(1),
    default=None,
    help="Lines to read before writing any.  [default: the larger of 1000 and 250 per worker]",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=None,
    help="Processes that translate, each on one core.  [default: one per core; 1 on a GPU]",
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
    empty line. A line longer than the model was trained on is translated in parts, which is
    noted on standard error. The models of an ensemble must share their vocabulary; the search
    uses the mean of their probabilities.
    """
    # Each worker has one thread, in numpy's BLAS, too.
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
    split = 0
    stream = translator.translate_stream(_lines(), ahead, workers)
    for number, line in enumerate(stream, start=1):
        sys.stdout.buffer.write(line.text.encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()
        if line.parts > 1:
            split += 1
            _report_split(split, number, line.parts, translator.max_pieces)
    if split > SPLITS_REPORTED:
        _say(f"{split:,} lines in total were longer than {translator.max_pieces} pieces")


def _report_split(split: int, number: int, parts: int, longest: int) -> None:
    if split <= SPLITS_REPORTED:
        _say(f"line {number} has over {longest} pieces and was translated in {parts} parts")


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
    # Only \n ends a line: the other line separators of Unicode are text.
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            yield raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"line {number} is not UTF-8: {error.reason}",
                where="standard input",
                fix="convert it first; this batch of lines was not translated",
            ) from error
