"""Prove an export: translate a set with both engines, and say how far they are apart."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from unisono.score.metrics import METRICS
from unisono.score.paired import Comparison, compare
from unisono.translate.translator import Translation

LOWEST_DIFFERENCE = -0.5  # BLEU that an export may lose before it is refused


class Difference(msgspec.Struct, frozen=True):
    """How much the export gains over the bundle by one metric, with its 95 % interval."""

    before: float
    after: float
    difference: float
    low: float
    high: float


class LineTranslator(Protocol):
    """Our own translator, or another engine behind the same method."""

    def translate_stream(
        self, lines: Iterable[str], batch_lines: int = 1000, workers: int = 1
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order."""


class ExportProof(msgspec.Struct, frozen=True):
    """What both engines did with the same lines; the differences need a reference.

    Some engines rank by rules of their own what both of them found: `identical_natively` is
    the share of what they put first by themselves, and the differences are about that.
    """

    sentences: int
    identical: float
    sentences_per_second: float
    sentences_per_second_before: float
    megabytes: float
    megabytes_before: float
    bleu: Difference | None = None
    chrf: Difference | None = None
    identical_natively: float | None = None

    @property
    def is_too_bad(self) -> bool:
        """Say whether the export loses more BLEU than may go unnoticed."""
        return self.bleu is not None and self.bleu.difference < LOWEST_DIFFERENCE


def prove(
    before: LineTranslator,
    after: LineTranslator,
    sources: Sequence[str],
    references: Sequence[str],
    megabytes: tuple[float, float],
    workers: int,
) -> ExportProof:
    """Translate `sources` by both; `references` may be empty, `megabytes` are old and new."""
    # Ours first: its workers are forked, and nothing may have computed before.
    ours, seconds_before = _timed(before, sources, workers)
    theirs, seconds = _timed(after, sources, 1)
    before_texts = [line.text for line in ours]
    natives = [line.text if line.native is None else line.native for line in theirs]
    bleu, chrf = (
        _difference(compare(METRICS[name], before_texts, natives, references))
        if references
        else None
        for name in ("BLEU", "chrF")
    )
    has_native = any(line.native is not None for line in theirs)
    return ExportProof(
        len(sources),
        _same(before_texts, [line.text for line in theirs]),
        len(sources) / seconds,
        len(sources) / seconds_before,
        megabytes[1],
        megabytes[0],
        bleu,
        chrf,
        identical_natively=_same(before_texts, natives) if has_native else None,
    )


def _same(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """Return the share of equal lines."""
    return sum(one == other for one, other in zip(ours, theirs, strict=True)) / len(ours)


def _timed(
    translator: LineTranslator, lines: Sequence[str], workers: int
) -> tuple[list[Translation], float]:
    began = time.perf_counter()
    stream = translator.translate_stream(lines, max(1000, 250 * workers), workers)
    return list(stream), time.perf_counter() - began


def _difference(found: Comparison) -> Difference:
    return Difference(found.first, found.second, found.difference, found.low, found.high)
