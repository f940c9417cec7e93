"""`unisono translate`: translate standard input to standard output."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import tee, zip_longest
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from unisono.bundle.format import bundle_at
from unisono.cli.options import Number, PathType
from unisono.errors import ConfigError, DataError
from unisono.printable import printable, printable_json, writing
from unisono.score.files import lines_of
from unisono.translate.settings import Decoding, PieceSampling

SPLITS_REPORTED = 5
LONGEST_INPUT_BYTES = 100_000  # a small model on one core takes seconds for as much
LONGEST_DOCUMENT_BYTES = 10_000_000


@click.command()
@click.option(
    "--model",
    "models",
    type=PathType,
    required=True,
    multiple=True,
    help="A bundle, or a finished run; give several for an ensemble.",
)
@click.option(
    "--engine",
    type=click.Choice(["unisono", "ctranslate2"]),
    default="unisono",
    show_default=True,
    help="What searches; ctranslate2 takes an export of `unisono export` as --model.",
)
@click.option(
    "--documents",
    is_flag=True,
    help="The input is a whole text: find its sentences; keep lines and white space.",
)
@click.option(
    "--html",
    is_flag=True,
    help="The input is an HTML page: translate its text; keep tags and entities.",
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
    "--precision",
    type=click.Choice(["fp32", "bf16", "auto"]),
    default="fp32",
    show_default=True,
    help="Of products on a CPU: bf16 is faster and nearly the same; auto takes it if it pays.",
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
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write a JSON object a line: text, score, log-probability, confidence, alternatives.",
)
@click.option(
    "--n-best",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Alternatives of each line, best first; more than one needs --json.",
)
@click.option(
    "--prefixes",
    type=PathType,
    help="A file with a line for each input line: how its translation has to begin.",
)
@click.option(
    "--sample",
    is_flag=True,
    help="Draw translations from the model's distribution in place of a search.",
)
@click.option("--temperature", type=Number(0, min_open=True), help="Below 1 sharpens.")
@click.option("--top-k", type=click.IntRange(1), help="Draw from the K likeliest pieces.")
@click.option(
    "--top-p",
    type=Number(0, 1, min_open=True),
    help="Draw from the fewest pieces with this much probability.",
)
@click.option("--seed", type=int, help="Another seed draws another text.  [default: 1]")
def translate(
    models: tuple[Path, ...],
    engine: str,
    documents: bool,
    html: bool,
    beam: int | None,
    length_penalty: float | None,
    device: str,
    precision: Literal["auto", "fp32", "bf16"],
    batch_lines: int | None,
    workers: int | None,
    as_json: bool,
    n_best: int,
    prefixes: Path | None,
    sample: bool,
    **drawing: float | None,
) -> None:
    """Translate standard input to standard output, line by line.

    The output has as many lines as the input, in the same order; an empty line gives an
    empty line. A line longer than the model was trained on is translated in parts, which is
    noted on standard error; one of over 100,000 bytes is refused. With --documents or --html
    the input is one text of up to 10 MB, of one sentence or many. A terminal shows control
    characters as a replacement; a file or a pipe gets every byte. The models of an
    ensemble must share their vocabulary; the search uses the mean of their probabilities. With
    --sample the same seed draws the same text, whatever the batches and workers.
    """
    sampling = _sampling(sample, drawing)
    if documents or html:
        _refuse_lines_only(as_json=as_json, prefixes=prefixes)
    # Each worker has one thread, in numpy's BLAS, too.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    workers, translator = _translator(models, engine, device, precision, workers, sampling)
    decoding = _decoding(translator.decoding, beam, length_penalty, n_best, as_json)
    translator = replace(translator, decoding=decoding, best=n_best, sampling=sampling)
    ahead = batch_lines or max(1000, 250 * workers)
    if documents or html:
        _translate_document(translator, ahead, workers, markup=html)
        return
    split = 0
    begins = _with_prefixes(prefixes) if prefixes else (_lines(), ())
    stream = translator.translate_stream(begins[0], ahead, workers, begins[1])
    for number, line in enumerate(stream, start=1):
        text = _as_json(number, line) if as_json else line.text
        _write(text, as_json)
        if line.parts > 1:
            split += 1
            _report_split(split, number, line.parts, translator.max_pieces)
    if split > SPLITS_REPORTED:
        _say(f"{split:,} lines in total were longer than {translator.max_pieces} pieces")


def _refuse_lines_only(**given: object) -> None:
    for name, value in given.items():
        if value:
            option = "--json" if name == "as_json" else f"--{name}"
            raise ConfigError(
                f"{option} is for lines, not for whole texts",
                where=option,
                fix="leave it out, or leave out --documents and --html",
            )


def _translate_document(translator: Any, ahead: int, workers: int, *, markup: bool) -> None:
    """Translate all of standard input as one text."""
    from unisono.text.documents import plan_document

    document = plan_document(
        _whole_input(), markup=markup, language=translator.language, fits=translator.fits
    )
    stream = translator.translate_stream(document.sentences, ahead, workers)
    text = document.assemble([line.text for line in stream])
    if sys.stdout.isatty():
        text = "\n".join(printable(line) for line in text.split("\n"))
    with writing("standard output"):
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _whole_input() -> str:
    raw = sys.stdin.buffer.read(LONGEST_DOCUMENT_BYTES + 1)
    if len(raw) > LONGEST_DOCUMENT_BYTES:
        raise DataError(
            f"the text has over {LONGEST_DOCUMENT_BYTES:,} bytes",
            where="standard input",
            fix="translate it in several parts",
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {error.start + 1:,} is not UTF-8: {error.reason}",
            where="standard input",
            fix="convert the text first",
        ) from error


def _translator(
    models: tuple[Path, ...],
    engine: str,
    device: str,
    precision: Literal["auto", "fp32", "bf16"],
    wanted: int | None,
    sampling: PieceSampling | None,
) -> tuple[int, Any]:
    """Return the workers of our search, and the translator."""
    from unisono.bundle.reader import ensemble, open_bundle
    from unisono.comm.bootstrap.device import pick_device

    if engine == "unisono":
        from unisono.train.process_setup import keep_freed_memory

        keep_freed_memory()
        place = pick_device(device)
        bundles = [open_bundle(bundle_at(path)) for path in models]
        return _workers(wanted, place), ensemble(bundles, place, precision=precision)
    if len(models) > 1 or sampling or device == "cuda" or precision != "fp32":
        raise ConfigError(
            "CTranslate2 here takes one model, searches and does not draw, on the CPU, in the "
            "precision of its export",
            where="--engine",
            fix="leave out --sample, --device and --precision and name one export, or leave "
            "out --engine",
        )
    from unisono.cli.export import require_ctranslate2

    require_ctranslate2()
    from unisono.export.export_files import open_export

    # It has threads of its own in place of our workers.
    return 1, open_export(models[0], _workers(wanted, "cpu"))


def _decoding(
    recommended: Decoding,
    beam: int | None,
    length_penalty: float | None,
    n_best: int,
    as_json: bool,
) -> Decoding:
    if n_best > 1 and not as_json:
        raise ConfigError(
            f"{n_best} alternatives do not fit on one line", where="--n-best", fix="add --json"
        )
    changes = {"beam": beam or max(recommended.beam, n_best), "length_penalty": length_penalty}
    given = {name: value for name, value in changes.items() if value is not None}
    decoding = msgspec.structs.replace(recommended, **given)
    if decoding.beam < n_best:
        raise ConfigError(
            f"a beam of {decoding.beam} cannot find {n_best} alternatives",
            where="--n-best",
            fix=f"set --beam {n_best}, or leave it out",
        )
    return decoding


def _sampling(sample: bool, drawing: dict[str, float | None]) -> PieceSampling | None:
    given = {name: value for name, value in drawing.items() if value is not None}
    if given and not sample:
        name = next(iter(given)).replace("_", "-")
        raise ConfigError(f"--{name} is for drawing", where=f"--{name}", fix="add --sample")
    return msgspec.convert(given, PieceSampling) if sample else None


def _as_json(number: int, line: Any) -> str:
    alternatives = [{**asdict(one), "confidence": one.confidence} for one in line.alternatives]
    told = {"line": number, "text": line.text, "parts": line.parts}
    return json.dumps({**told, "alternatives": alternatives}, ensure_ascii=False)


def _with_prefixes(path: Path) -> tuple[Iterator[str], Iterator[str]]:
    """Return the input lines and their prefixes; there have to be as many."""
    lines, starts = tee(_paired(_lines(), iter(lines_of(path)), path))
    return (line for line, _ in lines), (start for _, start in starts)


def _paired(
    lines: Iterator[str], starts: Iterator[str], path: Path
) -> Iterator[tuple[str, str]]:
    for line, start in zip_longest(lines, starts):
        if line is None or start is None:
            raise DataError(
                "the input and the prefixes have different numbers of lines",
                where=str(path),
                fix="give one prefix a line; an empty line is no prefix",
            )
        yield line, start


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
    print(f"note: {message}", file=sys.stderr)


def _write(text: str, as_json: bool) -> None:
    """Write a line of data as it is; a terminal gets what it can show."""
    if sys.stdout.isatty():
        text = printable_json(text) if as_json else printable(text)
    with writing("standard output"):
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


def _read_line() -> bytes:
    return sys.stdin.buffer.readline(LONGEST_INPUT_BYTES + 1)


def _lines() -> Iterator[str]:
    # Only \n ends a line: the other line separators of Unicode are text.
    for number, raw in enumerate(iter(_read_line, b""), start=1):
        if len(raw) > LONGEST_INPUT_BYTES:
            raise DataError(
                f"line {number} has over {LONGEST_INPUT_BYTES:,} bytes",
                where="standard input",
                fix="write one sentence a line, or translate the text with --documents; this "
                "batch of lines was not translated",
            )
        try:
            yield raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"line {number} is not UTF-8: {error.reason}",
                where="standard input",
                fix="convert it first; this batch of lines was not translated",
            ) from error
