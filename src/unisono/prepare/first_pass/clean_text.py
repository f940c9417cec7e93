"""The first pass: read every training file once, and keep what is worth it."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from unisono.corpus.manifest import Dropped, Input
from unisono.prepare.first_pass.chunks import PairReader
from unisono.prepare.first_pass.drops import DUPLICATE, EXAMPLES, Drops, clipped
from unisono.prepare.first_pass.duplicates import first_occurrences
from unisono.prepare.first_pass.filters import FilteredChunk, PairFilter
from unisono.prepare.inputs import RawPair
from unisono.prepare.job import PrepareJob, PrepareProgress
from unisono.prepare.second_pass.encode_chunk import Portion
from unisono.process_pool import working


@dataclass
class CleanText:
    """The pairs of one source that are worth keeping by their text; `portions` and `hashes`
    go together.
    """

    raw: RawPair
    record: Input
    portions: list[Portion] = field(default_factory=list)
    hashes: list[NDArray[np.uint64]] = field(default_factory=list)
    kept_overlap: int = 0

    @property
    def pairs(self) -> int:
        """Return how many pairs are wanted."""
        return sum(int(portion.wanted.sum()) for portion in self.portions)


def gather(
    assignment: PrepareJob,
    inputs: list[RawPair],
    judge: PairFilter,
    drops: Drops,
    known: Sequence[NDArray[np.uint64]] = (),
) -> Generator[PrepareProgress, None, list[CleanText]]:
    """Read and judge training text; `known` are the hashes of pairs that are there already."""
    total, done = sum(raw.bytes for raw in inputs), 0
    texts = []
    with working(judge, assignment.workers) as workforce:
        for raw in inputs:
            reader = PairReader(raw)
            judged: list[FilteredChunk] = []
            yield PrepareProgress("reading", done, total, "bytes")
            for result in workforce.results(reader.chunks()):
                drops.add_all(result.dropped)
                judged.append(result)
                yield PrepareProgress("reading", done + reader.bytes_read, total, "bytes")
            done += reader.bytes_read
            texts.append(_clean_text(raw, reader.record(), judged))
    yield PrepareProgress("reading", total, total, "bytes")
    if assignment.settings.drop_duplicates:
        _drop_duplicates(texts, known, drops)
    return texts


def _clean_text(raw: RawPair, record: Input, judged: list[FilteredChunk]) -> CleanText:
    portions = [Portion(j.text, np.ones(j.text.pairs, np.bool_), raw.tag) for j in judged]
    overlap = sum(j.kept_overlap for j in judged)
    return CleanText(raw, record, portions, [j.hashes for j in judged], overlap)


def _drop_duplicates(
    texts: list[CleanText], known: Sequence[NDArray[np.uint64]], drops: Drops
) -> None:
    """Want only the first of equal pairs, and none of those whose hashes are `known`."""
    hashes = [part for text in texts for part in text.hashes]
    first = first_occurrences(np.concatenate([*known, *hashes]))
    place, count = sum(map(len, known)), 0
    examples: list[tuple[str, str]] = []
    for text in texts:
        for index, portion in enumerate(text.portions):
            wanted = first[place : place + len(portion.wanted)]
            text.portions[index] = replace(portion, wanted=wanted)
            place += len(wanted)
            repeated = np.flatnonzero(~wanted)
            count += len(repeated)
            if len(repeated) and len(examples) < EXAMPLES:
                source, target = portion.text.read()
                examples += [clipped(source[i], target[i]) for i in repeated[:EXAMPLES]]
    if count:
        drops.add_all({DUPLICATE: Dropped(count, examples[:EXAMPLES])})
