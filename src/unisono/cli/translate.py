"""`unisono translate`: standard input to standard output."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from unisono.bundle.format import DESCRIPTION
from unisono.cli.options import PathType
from unisono.errors import DataError
from unisono.records.layout import RunDirectory

CUTS_TOLD = 5


@click.command()
@click.option(
    "--model", type=PathType, required=True, help="A bundle, or a run directory that has one."
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
    default=1000,
    show_default=True,
    help="Lines read before any is written.",
)
def translate(
    model: Path, beam: int | None, length_penalty: float | None, device: str, batch_lines: int
) -> None:
    """Translate standard input to standard output, line by line.

    The output has as many lines as the input, in the same order; an empty line gives an
    empty line. A line longer than the model was trained for is translated in parts, and
    standard error tells which.
    """
    from unisono.bundle.reader import open_bundle
    from unisono.comm.join import pick_device

    bundle = open_bundle(bundle_at(model))
    changes = {"beam": beam, "length_penalty": length_penalty}
    given = {name: value for name, value in changes.items() if value is not None}
    decoding = msgspec.structs.replace(bundle.description.decoding, **given)
    translator = bundle.translator(pick_device(device), decoding=decoding)
    cut = 0
    stream = translator.translate_stream(_lines(), batch_lines=batch_lines)
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


def _say(message: str) -> None:
    click.echo(f"note: {message}", err=True)


def bundle_at(path: Path) -> Path:
    """Return the bundle that `path` is, or that the run at `path` holds."""
    run = RunDirectory(path)
    if run.bundle.is_dir() or (path / DESCRIPTION).is_file():
        return run.bundle if run.bundle.is_dir() else path
    if run.config.is_file():
        what = "this run has not finished, so it has no bundle yet"
        fix = "let it finish, or end it now by continuing it with a lower train.max_steps"
    else:
        what = "there is no bundle here"
        fix = "name a finished run such as runs/demo, or its bundle; `unisono show` tells"
    raise DataError(what, where=str(path), fix=fix)


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
