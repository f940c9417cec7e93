"""Learning pieces from a bounded sample: every n-th pair of all sources, so that each source
has its share.

Where the pieces of a corpus come from: given as model files, or learnt from its text.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from itertools import chain, compress, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from unisono.atomic import sha256_of
from unisono.config.settings import CorpusSettings
from unisono.corpus.manifest import Learning, SplitSize
from unisono.errors import DataError
from unisono.prepare.first_pass.clean_text import CleanText
from unisono.prepare.first_pass.held_out import HeldOutSet
from unisono.prepare.job import PrepareJob, PrepareProgress
from unisono.prepare.second_pass.encode_chunk import UNKNOWN_SHOWN, LineEncoder, Portion
from unisono.process_pool import working
from unisono.text.load import load_tokenizer
from unisono.text.sentence_pieces import SentencePieces, learn_pieces
from unisono.text.tokenizer import UNKNOWN_ID, Tokenizers


@dataclass(frozen=True)
class TextSample:
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

    def sample(self) -> TextSample:
        """Return what has been written."""
        return TextSample(self._paths, self._lines)

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


# Pieces learnt from the same text lack a character here and there, if told to; more than
# that is a mistake, and pieces made for other text should not lack more than a few.
_MOST_UNKNOWN_LEARNT = 0.05
_MOST_UNKNOWN_GIVEN = 0.01
_MOST_UNKNOWN_HELD_OUT = 0.1  # of a few sentences, by given pieces
_SECONDS_PER_LOOK = 0.5

# Where pieces that do not fit come from, and what to do then.
_GIVEN = (
    "corpus.pieces_model",
    "name a model learnt from such text, or none: then one is learnt here",
)
_LEARNT = (
    "corpus.character_coverage",
    "set corpus.byte_fallback = true, or raise corpus.character_coverage",
)
_ADDED = (
    "the last [[data.train]]",
    "learn pieces from all the text: prepare it in another corpus.directory",
)


def given_models(settings: CorpusSettings) -> list[Path]:
    """Return the files of the pieces that are given: none, one for both sides, or two."""
    return [
        Path(name) for name in (settings.pieces_model, settings.target_pieces_model) if name
    ]


def load_given(
    settings: CorpusSettings, tags: Sequence[str] = ()
) -> tuple[Tokenizers, Learning] | None:
    """Load the pieces that are given, if any; the source's must have `tags`."""
    models = given_models(settings)
    if not models:
        return None
    for name, path in zip(("pieces_model", "target_pieces_model"), models, strict=False):
        if not path.is_file():
            raise DataError(
                f"there is no file {path}",
                where=f"corpus.{name}",
                fix=f'name a SentencePiece model, or set {name} = "" to learn one',
            )
    tokenizers = [
        load_tokenizer(SentencePieces.kind, path, known)
        for path, known in zip(models, (tags, ()), strict=False)
    ]
    learning = Learning(algorithm="given", models=[sha256_of(path) for path in models])
    return Tokenizers(tokenizers[0], tokenizers[-1]), learning


def learn(
    texts: list[CleanText], assignment: PrepareJob, directory: Path
) -> Generator[PrepareProgress, None, tuple[Tokenizers, Learning]]:
    """Learn pieces from a sample of the clean text, which lies in `directory` meanwhile."""
    settings, pairs = assignment.settings, sum(text.pairs for text in texts)
    writer = SampleWriter(settings, pairs, directory)
    for seen in writer.write(portion for text in texts for portion in text.portions):
        yield PrepareProgress("reading a sample", seen, pairs)
    sample, models = writer.sample(), []
    # A process of its own, whose memory is gone with it.
    with working(Learner(settings), min(assignment.workers, 1)) as workforce:
        for path, tags in zip(sample.paths, (assignment.tags, ()), strict=False):
            yield PrepareProgress("learning pieces", 0, 0)
            future = workforce.begin(Lesson(path, tags))
            while wait([future], _SECONDS_PER_LOOK).not_done:
                yield PrepareProgress("learning pieces", 0, 0)
            models.append(SentencePieces(workforce.finish(future), tags=tags))
            path.unlink()
    yield PrepareProgress("learning pieces", 1, 1)
    learning = Learning(algorithm=settings.pieces, lines=sample.lines)
    return Tokenizers(models[0], models[-1]), learning


def check_held_out(tokenizers: Tokenizers, held_out: list[HeldOutSet]) -> None:
    """Raise an error if given pieces are clearly made for other text, before all is read."""
    for number, (side, tokenizer) in enumerate(
        (("source", tokenizers.source), ("target", tokenizers.target))
    ):
        lines = [pair[number] for held in held_out for pair in held.pairs]
        ids = list(chain.from_iterable(tokenizer.encode(lines)))
        count = ids.count(UNKNOWN_ID)
        if count > _MOST_UNKNOWN_HELD_OUT * len(ids):
            encoder = LineEncoder(tokenizer)
            unknown = [c for c in dict.fromkeys("".join(lines)) if not encoder.knows(c)]
            raise _do_not_fit(side, count / len(ids), unknown, _GIVEN)


def check_train(
    size: SplitSize,
    unknown: Iterable[Iterable[str]],
    learning: Learning,
    *,
    added: bool = False,
) -> None:
    """Raise an error if too much of the training text is unknown to its pieces.

    Text that is `added` to a corpus has to do with the pieces that are there.
    """
    given = learning.algorithm == "given"
    limit = _MOST_UNKNOWN_GIVEN if given else _MOST_UNKNOWN_LEARNT
    place = _ADDED if added else _GIVEN if given else _LEARNT
    counts = (
        ("source", size.source_unknown, size.source_tokens),
        ("target", size.target_unknown, size.target_tokens),
    )
    for (side, count, tokens), characters in zip(counts, unknown, strict=True):
        if count > limit * tokens:
            raise _do_not_fit(side, count / tokens, characters, place)


def _do_not_fit(
    side: str, share: float, characters: Iterable[str], place: tuple[str, str]
) -> DataError:
    shown = " ".join(islice(characters, UNKNOWN_SHOWN))
    return DataError(
        f"the pieces do not fit the {side} text: {100 * share:.1f} % of its pieces are "
        f"unknown, for example {shown}",
        where=place[0],
        fix=place[1],
    )
