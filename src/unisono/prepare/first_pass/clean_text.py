"""The first pass: read → decode → normalise → filter → clean text on disk.

Every training file is read once. The workers clean its chunks in parallel and write the kept
pairs to files, because all of them may not fit into memory. Then duplicates are marked, found
by the eight bytes of hash that each pair leaves in memory.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unisono.corpus.manifest import HASH_TYPE, Dropped, Input
from unisono.errors import DataError
from unisono.prepare.first_pass import filters
from unisono.prepare.first_pass.decode import decode_chunk
from unisono.prepare.first_pass.read_files import Chunk, PairReader
from unisono.prepare.job import PrepareJob, PrepareProgress, RawPair
from unisono.process_pool import worker_pool
from unisono.text.normalise import Normalisation

Hashes = NDArray[np.uint64]

# Sorting one part of the hashes after the other needs less memory than sorting all at once.
_HASH_PARTS = 16


@dataclass(frozen=True)
class CleanChunk:
    """The clean pairs of a chunk, in a file: all source lines, then all target lines.

    `keep` says which pairs to encode: not the duplicates. The `tag`, if there is one, goes in
    front of every source line.
    """

    path: Path
    keep: NDArray[np.bool_]
    tag: str = ""

    def read(self) -> tuple[list[str], list[str]]:
        """Return the source and the target lines of all pairs."""
        pairs, lines = len(self.keep), self.path.read_bytes().decode("utf-8").split("\n")
        return lines[:pairs], lines[pairs : 2 * pairs]


def write_chunk(
    path: Path, source: Sequence[str], target: Sequence[str], tag: str = ""
) -> CleanChunk:
    """Write normalised pairs, in which no character ends a line, to `path`."""
    path.write_bytes("\n".join([*source, *target, ""]).encode("utf-8"))
    return CleanChunk(path, np.ones(len(source), np.bool_), tag)


@dataclass
class CleanText:
    """The clean text of one source: its chunks, and the hashes of the pairs of each.

    `kept_overlap` of its pairs reveal a held-out pair; the settings want them nevertheless.
    """

    raw: RawPair
    record: Input
    chunks: list[CleanChunk] = field(default_factory=list)
    hashes: list[Hashes] = field(default_factory=list)
    kept_overlap: int = 0

    @property
    def pairs(self) -> int:
        """Return how many pairs to encode."""
        return sum(int(chunk.keep.sum()) for chunk in self.chunks)


@dataclass(frozen=True)
class HeldOutSet:
    """A validation or test set: pairs as they were written, and the same normalised."""

    raw: RawPair
    record: Input
    original: list[tuple[str, str]]
    pairs: list[tuple[str, str]]
    dropped: filters.Drops = field(default_factory=filters.Drops)


def clean_training_text(
    job: PrepareJob,
    inputs: list[RawPair],
    held_out: list[HeldOutSet],
    directory: Path,
    drops: filters.Drops,
    known: Sequence[Hashes] = (),
) -> Generator[PrepareProgress, None, list[CleanText]]:
    """Run the first pass over `inputs`, and leave the clean text in `directory`.

    `known` are the hashes of pairs that the corpus has already.
    """
    total, done = sum(raw.bytes for raw in inputs), 0
    texts = []
    with worker_pool(ChunkCleaner(job, held_out, directory), job.workers) as workers:
        for raw in inputs:
            reader = PairReader(raw)
            cleaned: list[CleanedChunk] = []
            yield PrepareProgress("reading", done, total, "bytes")
            for result in workers.results(reader.chunks()):
                drops.add_all(result.dropped)
                cleaned.append(result)
                yield PrepareProgress("reading", done + reader.bytes_read, total, "bytes")
            done += reader.bytes_read
            texts.append(_clean_text(raw, reader.record(), cleaned))
    yield PrepareProgress("reading", total, total, "bytes")
    if job.settings.drop_duplicates:
        _drop_duplicates(texts, known, drops)
    return texts


@dataclass(frozen=True)
class CleanedChunk:
    """What a worker returns for a chunk: the text is on disk, with one hash for each pair."""

    text: CleanChunk
    hashes: Hashes
    dropped: dict[str, Dropped]
    kept_overlap: int


class ChunkCleaner:
    """Decode, normalise and filter chunks, and write the kept pairs to `directory`."""

    def __init__(self, job: PrepareJob, held_out: list[HeldOutSet], directory: Path) -> None:
        pairs = (pair for held in held_out for pair in held.pairs)
        self._filter = filters.PairFilter(job, filters.HeldOut(pairs, job.tags))
        self._normalise = job.normalise
        self._drop_invalid = job.settings.invalid == "drop"
        self._directory = directory

    def __call__(self, chunk: Chunk) -> CleanedChunk:
        lines = decode_chunk(chunk, drop_invalid=self._drop_invalid)
        source, target = self._normalise(lines.source), self._normalise(lines.target)
        reasons, drops = self._filter.reasons(source, target, lines.invalid), filters.Drops()
        for reason, *pair in compress(zip(reasons, source, target, strict=True), reasons):
            drops.add(reason, *pair)
        kept = [not reason for reason in reasons]
        source, target = list(compress(source, kept)), list(compress(target, kept))
        path, tag = self._directory / f"{chunk.raw.block}.{chunk.number:06}", chunk.raw.tag
        text = write_chunk(path, source, target, tag)
        # The same pair with another tag is a different pair.
        tagged = [f"{tag} {line}" for line in source] if tag else source
        overlap = self._filter.kept_overlap(source, target)
        return CleanedChunk(text, hashes_of(tagged, target), drops.summary(), overlap)


def _clean_text(raw: RawPair, record: Input, cleaned: list[CleanedChunk]) -> CleanText:
    chunks, hashes = [c.text for c in cleaned], [c.hashes for c in cleaned]
    return CleanText(raw, record, chunks, hashes, sum(c.kept_overlap for c in cleaned))


def _drop_duplicates(
    texts: list[CleanText], known: Sequence[Hashes], drops: filters.Drops
) -> None:
    """Keep only the first of equal pairs, and none whose hash is `known`."""
    hashes = [part for text in texts for part in text.hashes]
    first = first_occurrences(np.concatenate([*known, *hashes]))
    place, count = sum(map(len, known)), 0
    examples: list[tuple[str, str]] = []
    for text in texts:
        for index, chunk in enumerate(text.chunks):
            keep = first[place : place + len(chunk.keep)]
            text.chunks[index] = replace(chunk, keep=keep)
            place += len(keep)
            repeated = np.flatnonzero(~keep)
            count += len(repeated)
            if len(repeated) and len(examples) < filters.EXAMPLES:
                source, target = chunk.read()
                examples += [
                    filters.clipped(source[i], target[i]) for i in repeated[: filters.EXAMPLES]
                ]
    if count:
        drops.add_all({filters.DUPLICATE: Dropped(count, examples[: filters.EXAMPLES])})


def first_occurrences(hashes: Hashes) -> NDArray[np.bool_]:
    """Say for each hash whether it is the first of its value."""
    first = np.zeros(len(hashes), np.bool_)
    for part in range(_HASH_PARTS):
        places = np.flatnonzero(hashes % np.uint64(_HASH_PARTS) == part)
        _, indices = np.unique(hashes[places], return_index=True)
        first[places[indices]] = True
    return first


def hashes_of(source: list[str], target: list[str]) -> Hashes:
    """Return eight bytes for each pair.

    Among ten million different pairs two share a hash with a probability of 3 in a million;
    then one of them is lost.
    """
    pairs = map("\n".join, zip(source, target, strict=True))
    digests = (blake2b(pair.encode(), digest_size=8).digest() for pair in pairs)
    return np.frombuffer(b"".join(digests), HASH_TYPE)


def read_held_out(job: PrepareJob) -> list[HeldOutSet]:
    """Read the held-out sets as they are; drop only the pairs with an empty side."""
    return [_read_held_out(raw, job.normalise) for raw in job.held_out]


def _read_held_out(raw: RawPair, normalise: Normalisation) -> HeldOutSet:
    reader, drops = PairReader(raw), filters.Drops()
    pairs, original = [], []
    for pair, written in _normalised(reader, normalise):
        if all(pair):
            pairs.append(pair)
            original.append(written)
        else:
            drops.add(f"{filters.EMPTY} in {raw.split}", *pair)
    if not pairs:
        raise DataError(
            f"every pair of the {raw.split} set has an empty side",
            where=raw.where,
            fix="name files with text on the same lines",
        )
    return HeldOutSet(raw, reader.record(), original, pairs, drops)


def _normalised(
    reader: PairReader, normalise: Normalisation
) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    for chunk in reader.chunks():
        lines = decode_chunk(chunk, drop_invalid=False)
        clean = zip(normalise(lines.source), normalise(lines.target), strict=True)
        yield from zip(clean, zip(lines.source, lines.target, strict=True), strict=True)
