"""Compose sentences by pattern and deal them out to training, validation and test.

Some combinations of words, of an adjective with a noun or a verb with its object, are held
out: no training or validation sentence has one, every test sentence has at least one. Which
ones depends on the words alone, so every seed and every size holds out the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from unisono.datasets.builtin import questions, relatives, statements
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.clauses import SentencePair
from unisono.datasets.builtin.noun_phrases import Combination

Pattern = Callable[[Chance], SentencePair]
MOST_WORDS = 20

PATTERNS: dict[Pattern, int] = {
    statements.plain_statement: 20,
    statements.joined_statements: 5,
    statements.subordinate_after: 12,
    statements.subordinate_before: 10,
    statements.reported: 9,
    statements.intended: 6,
    statements.purposeful: 5,
    relatives.described_first: 5,
    relatives.described_last: 5,
    relatives.reason_in_thing: 4,
    relatives.one_after_the_other: 4,
    questions.yes_or_no: 8,
    questions.who_acts: 2,
    questions.what_is_acted_on: 3,
    questions.which_or_how_many: 3,
    questions.circumstances: 4,
    questions.indirect: 5,
    statements.comparison: 3,
    statements.quality: 2,
    statements.price: 2,
    statements.age: 1,
    statements.posture: 2,
    statements.existence: 2,
}
_DRAWN = tuple(pattern for pattern, weight in PATTERNS.items() for _ in range(weight))


def compose(chance: Chance) -> SentencePair:
    """Compose one sentence of any pattern, but none too long."""
    while True:
        pair = chance.pick(_DRAWN)(chance)
        if pair.source.count(" ") < MOST_WORDS:
            return pair


HELD_OUT_ONE_IN = 20


@dataclass(frozen=True, eq=False)
class Splits:
    """Three sets of pairs; no English sentence occurs twice, within a set or across."""

    train: tuple[SentencePair, ...]
    valid: tuple[SentencePair, ...]
    test: tuple[SentencePair, ...]


@cache
def is_held_out(combination: Combination) -> bool:
    """Tell whether two words may meet in the test set only."""
    digest = blake2b(" + ".join(combination).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") % HELD_OUT_ONE_IN == 0


def stream(seed: int) -> Iterator[SentencePair]:
    """Compose sentences without end; some occur again."""
    chance = Chance(seed)
    while True:
        yield compose(chance)


def distinct(pairs: Iterator[SentencePair]) -> Iterator[SentencePair]:
    """Drop English sentences that have occurred before."""
    seen: set[str] = set()
    for pair in pairs:
        if pair.source not in seen:
            seen.add(pair.source)
            yield pair


def generate(
    *, seed: int = 1, train: int = 200_000, valid: int = 1_000, test: int = 1_000
) -> Splits:
    """Generate the three sets.

    Validation and test come first in the stream of sentences: with more training pairs they
    stay the same.
    """
    learning: list[SentencePair] = []
    testing: list[SentencePair] = []
    for pair in distinct(stream(seed)):
        if any(map(is_held_out, pair.combinations)):
            if len(testing) < test:
                testing.append(pair)
        elif len(learning) < valid + train:
            learning.append(pair)
        if len(testing) == test and len(learning) == valid + train:
            break
    return Splits(tuple(learning[valid:]), tuple(learning[:valid]), tuple(testing))
