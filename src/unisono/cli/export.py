"""`unisono export`: a bundle for another engine, with a proof."""

import json
import os
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import msgspec

from unisono.bundle.format import bundle_at
from unisono.cli.options import PathType
from unisono.config.load import load_settings
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError, DataError
from unisono.export.obstacles import (
    FORMATS,
    QUANTIZATIONS,
    check_exportable,
    check_pieces,
    check_quantization,
)
from unisono.records.layout import RunDirectory
from unisono.score.files import aligned_lines


@click.command()
@click.argument("bundle", type=PathType)
@click.option("--to", type=click.Choice(FORMATS), required=True, help="Engine to write for.")
@click.option(
    "--quantize",
    type=click.Choice(QUANTIZATIONS),
    help="Store numbers in fewer bits; int8 is a quarter of the size, and faster.",
)
@click.option("--output", type=PathType, help="Path.  [default: BUNDLE-FORMAT-QUANTIZATION]")
@click.option(
    "--check",
    type=PathType,
    multiple=True,
    metavar="FILE",
    help="Prove the export on this source text and, given twice, its reference.  "
    "[default: the validation set of the run]",
)
@click.option("--force", is_flag=True, help="Keep an export that loses more than 0.5 BLEU.")
@click.option("--json", "as_json", is_flag=True, help="Print the proof as JSON.")
def export(
    bundle: Path,
    to: str,
    quantize: str | None,
    output: Path | None,
    check: tuple[Path, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Write BUNDLE (or the bundle of a finished run) for another engine, and prove it.

    Both engines translate the same text. The export holds, and this command prints, the share
    of identical translations, the difference in BLEU and chrF with its 95 % interval, the
    speed of both, and the size. An export that loses more than 0.5 BLEU is not written.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from unisono.bundle.reader import open_bundle

    opened = open_bundle(bundle_at(bundle))
    check_quantization(to, quantize)
    check_exportable(opened.description, to, where=str(bundle))
    check_pieces(opened.tokenizers, to, where=str(bundle))
    sources, references = _texts(bundle, check)
    write = _writer(to, sources)
    from unisono.export.proof import prove

    workers = len(os.sched_getaffinity(0))
    size = sum(file.stat().st_size for file in opened.path.iterdir()) / 1e6
    suffix = "-".join(part for part in (to, quantize) if part)
    place = output or bundle.with_name(f"{bundle.resolve().name}-{suffix}")

    def proves(after: Any, megabytes: float) -> Any:
        before = opened.translator()
        return prove(before, after, sources, references, (size, megabytes), workers)

    proof = write(place, opened, quantize or "", proves, force=force, workers=workers)
    _show(place, proof, as_json)


def _writer(to: str, sources: Sequence[str]) -> Any:
    if to == "huggingface":
        _require("transformers", "huggingface")
        from unisono.export.huggingface_export import write_huggingface

        return partial(write_huggingface, fit_to=sources)
    require_ctranslate2()
    from unisono.export.argos import write_argos
    from unisono.export.export_files import write_export

    return write_argos if to == "argos" else write_export


def require_ctranslate2() -> None:
    """Raise an error if CTranslate2 is not installed."""
    _require("ctranslate2", "ctranslate2")


def _require(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise ConfigError(
            f"{package} is not installed",
            where="--to, --engine",
            fix=f"pip install unisono[{extra}]",
        )


def _texts(bundle: Path, check: tuple[Path, ...]) -> tuple[list[str], list[str]]:
    """Return the lines to prove an export on, and their references, if there are any."""
    if len(check) > 2:
        raise ConfigError(
            f"--check was given {len(check)} times",
            where="--check",
            fix="give the source text and, if you have one, its reference",
        )
    if len(check) == 2:
        sources, references = aligned_lines(check)
        return sources, references
    if check:
        [sources] = aligned_lines(check)
        return sources, []
    run = RunDirectory(bundle)
    if not run.config.is_file():
        raise ConfigError(
            "a bundle alone has no text to prove an export on",
            where=str(bundle),
            fix="name the run, or add --check SOURCE --check REFERENCE",
        )
    corpus = Path(load_settings(run.config).corpus.directory)
    try:
        valid = open_corpus(corpus).split("valid")
    except DataError as error:
        raise DataError(
            f"the validation set of this run cannot be read: {error}",
            where=str(corpus),
            fix="start in the directory where you trained, or add --check SOURCE",
        ) from error
    return valid.source_text(), valid.target_text()


def _show(place: Path, proof: Any, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"export": str(place), **msgspec.to_builtins(proof)}))
        return
    print(f"{place}: {proof.megabytes:.1f} MB (bundle: {proof.megabytes_before:.1f} MB)")
    print(
        f"identical translations  {proof.identical:.1%} of {proof.sentences:,}{_native(proof)}"
    )
    for name, found in (("BLEU", proof.bleu), ("chrF", proof.chrf)):
        if found:
            print(
                f"{name:23} {found.before:.2f} → {found.after:.2f}  {found.difference:+.2f} "
                f"[{found.low:+.2f}, {found.high:+.2f}]"
            )
    ratio = proof.sentences_per_second / proof.sentences_per_second_before
    print(
        f"sentences a second      {proof.sentences_per_second_before:.0f} → "
        f"{proof.sentences_per_second:.0f}, {ratio:.1f} times as many"
    )


def _native(proof: Any) -> str:
    if proof.identical_natively is None:
        return ""
    return (
        f" by our length penalty, {proof.identical_natively:.1%} by that of the other program"
    )
