"""Learning pieces from a bounded sample: every n-th pair of all sources, so that each source
has its share.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from unisono.config.settings import CorpusSettings
from unisono.prepare.packing import Portion
from unisono.text.sentence_pieces import learn_pieces


@dataclass(frozen=True)
class Sample:
    """Lines to learn from, in files of their own: one for each model to be learnt."""

    paths: tuple[Path, ...]
    lines: int


class SampleWriter:
    """Collect the sample from portions in order. Both sides go into one file if they are
    to share their pieces.
    """

    def __init__(self, settings: CorpusSettings, pairs: int, directory: Path) -> None:
        self._every = max(1, -(-2 * pairs // settings.learning_lines))
        sides = ["both"] if settings.joint else ["source", "target"]
        self._paths = tuple(directory / f"sample.{side}" for side in sides)
        self._seen = self._lines = 0

    def write(self, portions: Iterable[Portion]) -> Iterator[int]:
        """Write the sample; yield how many pairs have been seen."""
        files = [path.open("wb") for path in self._paths]
        try:
            for portion in portions:
                self._write(portion, files)
                yield self._seen
        finally:
            for file in files:
                file.close()

    def sample(self) -> Sample:
        """Return what has been written."""
        return Sample(self._paths, self._lines)

    def _write(self, portion: Portion, files: Sequence[BinaryIO]) -> None:
        wanted = np.flatnonzero(portion.wanted)
        places = np.arange(self._seen, self._seen + len(wanted))
        chosen = np.zeros(len(portion.wanted), np.bool_)
        chosen[wanted[places % self._every == 0]] = True
        self._seen += len(wanted)
        if not chosen.any():
            return
        source, target = (list(compress(side, chosen)) for side in portion.text.read())
        self._lines += 2 * len(source)
        if len(files) == 1:
            pairs = zip(source, target, strict=True)
            files[0].write("".join(f"{s}\n{t}\n" for s, t in pairs).encode("utf-8"))
            return
        for file, side in zip(files, (source, target), strict=True):
            file.write("".join(f"{line}\n" for line in side).encode("utf-8"))


@dataclass(frozen=True)
class Lesson:
    """The file of a sample to learn one model from, and the tags it is to have besides."""

    path: Path
    tags: tuple[str, ...] = ()


class Learner:
    """Learn one model of pieces from each file of a sample."""

    def __init__(self, settings: CorpusSettings) -> None:
        self._settings = settings

    def __call__(self, lesson: Lesson) -> bytes:
        """Return the model learnt from the lines of a file."""
        with lesson.path.open("rb") as file:
            pieces = learn_pieces(
                (line[:-1].decode("utf-8") for line in file),
                size=self._settings.vocabulary,
                character_coverage=self._settings.character_coverage,
                pieces=self._settings.pieces,
                byte_fallback=self._settings.byte_fallback,
                tags=lesson.tags,
            )
        return pieces.model
