"""BLEU by sacreBLEU with its default settings: cased, 13a tokens, exponential smoothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

from unisono.errors import DataError


@dataclass(frozen=True)
class Bleu:
    """A score from 0 to 100, and the signature that says how it was computed.

    `precisions` are those of 1 to 4 tokens in percent; lengths count tokens.
    """

    score: float
    signature: str
    precisions: tuple[float, ...]
    brevity_penalty: float
    translation_length: int
    reference_length: int


def score_bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """Score translations of a whole set against one reference each."""
    if len(translations) != len(references):
        raise DataError(
            f"{len(translations)} translations for {len(references)} references",
            fix="give one translation per reference, in the same order",
        )
    if not references:
        raise DataError("there is nothing to score", fix="give at least one sentence")
    # `force` only silences a warning about text that looks tokenized; the score is the same.
    metric = BLEU(force=True)
    result = metric.corpus_score(list(translations), [list(references)])
    return Bleu(
        score=float(result.score),
        signature=str(metric.get_signature()),
        precisions=tuple(map(float, result.precisions)),
        brevity_penalty=float(result.bp),
        translation_length=int(result.sys_len),
        reference_length=int(result.ref_len),
    )


def score_files(translations: Path, references: Path) -> Bleu:
    """Score a file of translations against a file of references, line by line."""
    found, expected = _lines(translations), _lines(references)
    if len(found) != len(expected):
        raise DataError(
            f"{translations} has {len(found)} lines; {references} has {len(expected)}",
            where=str(translations),
            fix="both files need one line a sentence, in the same order; "
            "keep the line of an empty translation",
        )
    if not expected:
        raise DataError(f"{references} is empty", where=str(references), fix="name another")
    return score_bleu(found, expected)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}", where=str(path), fix="check the name"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"byte 0x{error.object[error.start]:02x} is not UTF-8",
            where=f"{path}, line {line}",
            fix="convert the file, for example: iconv -f latin1 -t utf-8",
        ) from error
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
