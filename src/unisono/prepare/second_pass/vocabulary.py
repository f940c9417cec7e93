"""Learn the vocabulary of pieces from a sample of the clean text, or load a given model.

The sample is bounded: every n-th pair of all sources, so that each source has its share.
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
from unisono.prepare.first_pass.clean_text import CleanChunk, CleanText, HeldOutSet
from unisono.prepare.job import PrepareJob, PrepareProgress
from unisono.prepare.second_pass.encode import UNKNOWN_SHOWN, LineEncoder
from unisono.process_pool import worker_pool
from unisono.text.inherited import LIKE, InheritedPieces
from unisono.text.load import load_tokenizer
from unisono.text.sentence_pieces import SentencePieces, learn_pieces
from unisono.text.tokenizer import UNKNOWN_ID, Tokenizers

# A vocabulary learnt from the same text lacks a few characters if character_coverage says so;
# a higher share is a mistake. One made for other text should lack hardly any.
_MOST_UNKNOWN_LEARNT = 0.05
_MOST_UNKNOWN_GIVEN = 0.01
_MOST_UNKNOWN_HELD_OUT = 0.1  # the share in a few sentences, with a given model
_SECONDS_PER_PROGRESS = 0.5

# Where to look if the pieces do not fit the text, and what to do.
_GIVEN = (
    "corpus.pieces_model",
    "name a model learnt from such text, or none to let Unisono learn one",
)
_INHERITED = (
    "--like, or [start] from",
    "start from a model of such text, or let Unisono learn pieces for a new one",
)
_LEARNT = (
    "corpus.character_coverage",
    "set corpus.byte_fallback = true, or raise corpus.character_coverage",
)
_ADDED = (
    "the last [[data.train]]",
    "learn pieces from all the text: prepare it in another corpus.directory",
)


class SampleWriter:
    """Write the sample to `paths`; both sides to one file if they share their pieces."""

    def __init__(self, settings: CorpusSettings, pairs: int, directory: Path) -> None:
        self._every = max(1, -(-2 * pairs // settings.learning_lines))
        sides = ["both"] if settings.joint else ["source", "target"]
        self.paths = tuple(directory / f"sample.{side}" for side in sides)
        self.lines = self._seen = 0

    def write(self, chunks: Iterable[CleanChunk]) -> Iterator[int]:
        """Write the sample; yield how many pairs have been seen."""
        files = [path.open("wb") for path in self.paths]
        try:
            for chunk in chunks:
                self._write(chunk, files)
                yield self._seen
        finally:
            for file in files:
                file.close()

    def _write(self, chunk: CleanChunk, files: Sequence[BinaryIO]) -> None:
        kept = np.flatnonzero(chunk.keep)
        places = np.arange(self._seen, self._seen + len(kept))
        chosen = np.zeros(len(chunk.keep), np.bool_)
        chosen[kept[places % self._every == 0]] = True
        self._seen += len(kept)
        if not chosen.any():
            return
        source, target = (list(compress(side, chosen)) for side in chunk.read())
        self.lines += 2 * len(source)
        if len(files) == 1:
            pairs = zip(source, target, strict=True)
            files[0].write("".join(f"{s}\n{t}\n" for s, t in pairs).encode("utf-8"))
            return
        for file, side in zip(files, (source, target), strict=True):
            file.write("".join(f"{line}\n" for line in side).encode("utf-8"))


@dataclass(frozen=True)
class VocabularyLearner:
    """Learn a model of pieces from a file of the sample and the tags it must contain."""

    settings: CorpusSettings

    def __call__(self, file_and_tags: tuple[Path, tuple[str, ...]]) -> bytes:
        """Return the model as the bytes of its file."""
        path, tags = file_and_tags
        with path.open("rb") as file:
            pieces = learn_pieces(
                (line[:-1].decode("utf-8") for line in file),
                size=self.settings.vocabulary,
                character_coverage=self.settings.character_coverage,
                pieces=self.settings.pieces,
                byte_fallback=self.settings.byte_fallback,
                tags=tags,
            )
        return pieces.model


def given_models(settings: CorpusSettings) -> list[Path]:
    """Return the model files that the settings name: none, one for both sides, or two."""
    return [
        Path(name) for name in (settings.pieces_model, settings.target_pieces_model) if name
    ]


def load_given(
    settings: CorpusSettings, tags: Sequence[str] = (), like: InheritedPieces | None = None
) -> tuple[Tokenizers, Learning] | None:
    """Load the models that the settings name, if any; the source's must have `tags`.

    What is inherited comes before what the settings say.
    """
    if like is not None:
        return like.tokenizers, inherited_learning(like)
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


def inherited_learning(like: InheritedPieces) -> Learning:
    """Return the record of inherited pieces."""
    return Learning(algorithm=LIKE, models=[like.tokenizers.fingerprint])


def learn_vocabulary(
    texts: list[CleanText], job: PrepareJob, directory: Path
) -> Generator[PrepareProgress, None, tuple[Tokenizers, Learning]]:
    """Learn pieces from a sample of the clean text; the sample is written to `directory`."""
    settings, pairs = job.settings, sum(text.pairs for text in texts)
    writer = SampleWriter(settings, pairs, directory)
    for seen in writer.write(chunk for text in texts for chunk in text.chunks):
        yield PrepareProgress("reading a sample", seen, pairs)
    models = []
    # In a process of its own, so that its memory is freed when it ends.
    with worker_pool(VocabularyLearner(settings), min(job.workers, 1)) as worker:
        for path, tags in zip(writer.paths, (job.tags, ()), strict=False):
            yield PrepareProgress("learning pieces", 0, 0)
            future = worker.begin((path, tags))
            while wait([future], _SECONDS_PER_PROGRESS).not_done:
                yield PrepareProgress("learning pieces", 0, 0)
            models.append(SentencePieces(worker.finish(future), tags=tags))
            path.unlink()
    yield PrepareProgress("learning pieces", 1, 1)
    learning = Learning(algorithm=settings.pieces, lines=writer.lines)
    return Tokenizers(models[0], models[-1]), learning


def check_held_out(tokenizers: Tokenizers, held_out: list[HeldOutSet]) -> None:
    """Raise an error if a given model is clearly made for other text, before the first pass."""
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
    """Raise an error if too much of the training text is unknown to the vocabulary.

    Text `added` to a corpus uses the vocabulary that the corpus has.
    """
    given = learning.algorithm in ("given", LIKE)
    limit = _MOST_UNKNOWN_GIVEN if given else _MOST_UNKNOWN_LEARNT
    origin = _INHERITED if learning.algorithm == LIKE else _GIVEN
    place = _ADDED if added else origin if given else _LEARNT
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
