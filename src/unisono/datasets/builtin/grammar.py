"""The whole grammar: every pattern of sentence, and how often it is used."""

from collections.abc import Callable

from unisono.datasets.builtin import facts, questions, relatives, statements
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.pairs import SentencePair

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
    facts.comparison: 3,
    facts.quality: 2,
    facts.price: 2,
    facts.age: 1,
    facts.posture: 2,
    facts.existence: 2,
}
_DRAWN = tuple(pattern for pattern, weight in PATTERNS.items() for _ in range(weight))


def compose(chance: Chance) -> SentencePair:
    """Compose one sentence of any pattern, but none too long."""
    while True:
        pair = chance.pick(_DRAWN)(chance)
        if pair.source.count(" ") < MOST_WORDS:
            return pair
