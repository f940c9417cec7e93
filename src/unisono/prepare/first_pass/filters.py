"""The first pass over the training text: which pairs are worth keeping, judged by their text.

A chunk is judged by itself, so that many can be at the same time. What needs the others,
the search for duplicates, gets a hash of each pair.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unisono.corpus.manifest import HASH_TYPE, Dropped
from unisono.prepare.first_pass.chunks import Chunk, lines_of
from unisono.prepare.first_pass.drops import (
    EMPTY,
    IDENTICAL,
    OVERLAP,
    WRONG_LANGUAGE,
    WRONG_SCRIPT,
    Drops,
)
from unisono.prepare.first_pass.held_out import HeldOut
from unisono.prepare.first_pass.languages import LanguageFilter, ScriptFilter
from unisono.prepare.job import PrepareJob
from unisono.prepare.spool import SpooledText, write_spool


@dataclass(frozen=True)
class FilteredChunk:
    """What became of a chunk: the kept pairs lie on disk, with one hash for each.

    Of them `kept_overlap` give a held-out pair away, and were wanted nevertheless.
    """

    text: SpooledText
    hashes: NDArray[np.uint64]
    dropped: dict[str, Dropped]
    kept_overlap: int = 0


class PairFilter:
    """Normalise and judge chunks; the kept text goes into the directory `spool`."""

    def __init__(self, assignment: PrepareJob, held_out: HeldOut, spool: Path) -> None:
        settings, languages = assignment.settings, assignment.languages
        self._settings = settings
        self._normalise = assignment.normalise
        self._held_out = held_out
        self._spool = spool
        wanted = languages if settings.drop_wrong_script else ("", "")
        self._scripts = ScriptFilter(wanted[0]), ScriptFilter(wanted[1])
        wanted = languages if settings.drop_wrong_language else ("", "")
        self._languages = LanguageFilter(wanted[0]), LanguageFilter(wanted[1])

    def __call__(self, chunk: Chunk) -> FilteredChunk:
        """Judge the pairs of a chunk."""
        lines = lines_of(chunk, drop_invalid=self._settings.invalid == "drop")
        source, target = self._normalise(lines.source), self._normalise(lines.target)
        reasons = list(map(self._reason, source, target))
        for index, reason in lines.invalid.items():
            reasons[index] = reason
        self._judge_writing(source, target, reasons)
        drops = Drops()
        for reason, *pair in compress(zip(reasons, source, target, strict=True), reasons):
            drops.add(reason, *pair)
        kept = [not reason for reason in reasons]
        source, target = list(compress(source, kept)), list(compress(target, kept))
        name = f"{chunk.raw.block}.{chunk.number:06}"
        text = write_spool(self._spool / name, source, target)
        tag = chunk.raw.tag
        # With another tag the same pair is another one.
        tagged = [f"{tag} {line}" for line in source] if tag else source
        overlap = self._overlap(source, target)
        return FilteredChunk(text, hashes_of(tagged, target), drops.summary(), overlap)

    def _overlap(self, source: list[str], target: list[str]) -> int:
        if self._settings.drop_overlap:
            return 0
        return sum(map(self._held_out.overlaps, source, target))

    def _reason(self, source: str, target: str) -> str:
        if not source or not target:
            return EMPTY
        if source == target and self._settings.drop_identical:
            return IDENTICAL
        if self._settings.drop_overlap and self._held_out.overlaps(source, target):
            return OVERLAP
        return ""

    def _judge_writing(self, source: list[str], target: list[str], reasons: list[str]) -> None:
        for side, script in zip((source, target), self._scripts, strict=True):
            _fill_in(reasons, WRONG_SCRIPT, script.wrong(side))
        for side, language in zip((source, target), self._languages, strict=True):
            undecided = (index for index, reason in enumerate(reasons) if not reason)
            _fill_in(reasons, WRONG_LANGUAGE, language.wrong(side, undecided))


def _fill_in(reasons: list[str], reason: str, indices: Iterable[int]) -> None:
    for index in indices:
        reasons[index] = reasons[index] or reason


def hashes_of(source: list[str], target: list[str]) -> NDArray[np.uint64]:
    """Return eight bytes for each pair.

    Two of ten million different pairs share theirs with a probability of 3 in a million;
    then one of them is lost.
    """
    return np.frombuffer(b"".join(_digests(source, target)), HASH_TYPE)


def _digests(source: list[str], target: list[str]) -> Iterator[bytes]:
    for pair in zip(source, target, strict=True):
        yield blake2b("\n".join(pair).encode(), digest_size=8).digest()
