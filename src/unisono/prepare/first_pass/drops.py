"""Why pairs are dropped: a few words each, counted, with the first examples."""

from collections.abc import Mapping

from unisono.corpus.manifest import Dropped
from unisono.prepare.first_pass.chunks import NOT_UTF8, NUL, TOO_FEW_COLUMNS, TOO_MANY_BYTES

EMPTY = "empty"
IDENTICAL = "identical"
OVERLAP = "overlap with valid/test"
WRONG_SCRIPT = "wrong script"
WRONG_LANGUAGE = "wrong language"
DUPLICATE = "duplicate"
TOO_LONG = "too long"
LENGTH_RATIO = "length ratio"

# In the order in which they are looked for: the first that applies is counted.
_ORDER = [
    *(TOO_MANY_BYTES, NUL, NOT_UTF8, TOO_FEW_COLUMNS),
    *(EMPTY, IDENTICAL, OVERLAP, WRONG_SCRIPT, WRONG_LANGUAGE),
    *(DUPLICATE, TOO_LONG, LENGTH_RATIO),
]
EXAMPLES = 3
CLIPPED_CHARACTERS = 200


class Drops:
    """Count what is dropped, and keep the first examples."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[tuple[str, str]]] = {}

    def add(self, reason: str, source: str, target: str) -> None:
        """Drop one pair."""
        self._counts[reason] = self._counts.get(reason, 0) + 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(clipped(source, target))

    def add_all(self, dropped: Mapping[str, Dropped]) -> None:
        """Drop what has been counted elsewhere, after all that was dropped before."""
        for reason, more in dropped.items():
            self._counts[reason] = self._counts.get(reason, 0) + more.count
            known = self._examples.get(reason, [])
            self._examples[reason] = [*known, *more.examples][:EXAMPLES]

    def summary(self) -> dict[str, Dropped]:
        """Return count and examples by reason, in an order that depends on nothing else."""
        return {
            reason: Dropped(count=count, examples=self._examples[reason])
            for reason, count in sorted(self._counts.items(), key=_place)
        }


def clipped(source: str, target: str) -> tuple[str, str]:
    """Return a pair as it is shown."""
    return source[:CLIPPED_CHARACTERS], target[:CLIPPED_CHARACTERS]


def _place(count: tuple[str, int]) -> tuple[int, str]:
    reason = count[0]
    return (_ORDER.index(reason) if reason in _ORDER else len(_ORDER)), reason
