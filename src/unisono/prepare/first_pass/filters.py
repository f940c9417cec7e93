"""Which pairs to drop and why, judged by their text; and how many of each kind there were.

The filters look at one pair at a time, so that chunks can be filtered in parallel. Duplicates
need all pairs and are found in clean_text.py; lengths in pieces in the second pass.
"""

from collections.abc import Iterable, Mapping

from unisono.corpus.manifest import Dropped
from unisono.prepare.first_pass.decode import NOT_UTF8, NUL, TOO_FEW_COLUMNS, TOO_MANY_BYTES
from unisono.prepare.first_pass.languages import LanguageFilter, ScriptFilter
from unisono.prepare.job import PrepareJob
from unisono.text.normalise import cut_tags

EMPTY = "empty"
IDENTICAL = "identical"
OVERLAP = "overlap with valid/test"
WRONG_SCRIPT = "wrong script"
WRONG_LANGUAGE = "wrong language"
DUPLICATE = "duplicate"
TOO_LONG = "too long"
LENGTH_RATIO = "length ratio"

# In the order of the filters: a pair is counted under the first reason that applies.
_ORDER = [
    *(TOO_MANY_BYTES, NUL, NOT_UTF8, TOO_FEW_COLUMNS),
    *(EMPTY, IDENTICAL, OVERLAP, WRONG_SCRIPT, WRONG_LANGUAGE),
    *(DUPLICATE, TOO_LONG, LENGTH_RATIO),
]
EXAMPLES = 3
CLIPPED_CHARACTERS = 200

# Shorter sentences ("Thank you very much.") recur by chance, so that for them only the same
# translation is a sign of overlap.
_DISTINCTIVE_CHARACTERS = 30


class PairFilter:
    """Find the reason to drop each pair of a chunk."""

    def __init__(self, job: PrepareJob, held_out: "HeldOut") -> None:
        settings, languages = job.settings, job.languages
        self._settings = settings
        self._held_out = held_out
        wanted = languages if settings.drop_wrong_script else ("", "")
        self._scripts = ScriptFilter(wanted[0]), ScriptFilter(wanted[1])
        wanted = languages if settings.drop_wrong_language else ("", "")
        self._languages = LanguageFilter(wanted[0]), LanguageFilter(wanted[1])

    def reasons(
        self, source: list[str], target: list[str], invalid: Mapping[int, str]
    ) -> list[str]:
        """Return why to drop each pair, or "" to keep it; `invalid` lines have their reason."""
        reasons = list(map(self._reason, source, target))
        for index, reason in invalid.items():
            reasons[index] = reason
        for side, script in zip((source, target), self._scripts, strict=True):
            _fill_in(reasons, WRONG_SCRIPT, script.wrong(side))
        for side, language in zip((source, target), self._languages, strict=True):
            undecided = (index for index, reason in enumerate(reasons) if not reason)
            _fill_in(reasons, WRONG_LANGUAGE, language.wrong(side, undecided))
        return reasons

    def kept_overlap(self, source: list[str], target: list[str]) -> int:
        """Count the kept pairs that overlap with a held-out set because the settings say so."""
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


def _fill_in(reasons: list[str], reason: str, indices: Iterable[int]) -> None:
    for index in indices:
        reasons[index] = reasons[index] or reason


class HeldOut:
    """The sentences of the validation and the test set, which training must not see.

    Tags at the start of a sentence make no difference.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], tags: Iterable[str] = ()) -> None:
        self._tags = dict.fromkeys(tags, 0)
        self._pairs = {(self._text(source), target) for source, target in pairs}
        self._sources = {s for s, _ in self._pairs if len(s) >= _DISTINCTIVE_CHARACTERS}
        self._targets = {t for _, t in self._pairs if len(t) >= _DISTINCTIVE_CHARACTERS}

    def overlaps(self, source: str, target: str) -> bool:
        """Say whether a training pair reveals a held-out pair."""
        source = self._text(source)
        if source in self._sources or target in self._targets:
            return True
        return (source, target) in self._pairs

    def _text(self, source: str) -> str:
        return cut_tags(source, self._tags)[1] if self._tags else source


class Drops:
    """Count the dropped pairs by reason, and keep the first examples of each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[tuple[str, str]]] = {}

    def add(self, reason: str, source: str, target: str) -> None:
        self._counts[reason] = self._counts.get(reason, 0) + 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(clipped(source, target))

    def add_all(self, dropped: Mapping[str, Dropped]) -> None:
        """Add what another process or stage has counted, after everything so far."""
        for reason, more in dropped.items():
            self._counts[reason] = self._counts.get(reason, 0) + more.count
            known = self._examples.get(reason, [])
            self._examples[reason] = [*known, *more.examples][:EXAMPLES]

    def summary(self) -> dict[str, Dropped]:
        """Return count and examples by reason, always in the same order."""
        return {
            reason: Dropped(count=count, examples=self._examples[reason])
            for reason, count in sorted(self._counts.items(), key=_place)
        }


def clipped(source: str, target: str) -> tuple[str, str]:
    """Return a pair as an example shows it."""
    return source[:CLIPPED_CHARACTERS], target[:CLIPPED_CHARACTERS]


def _place(count: tuple[str, int]) -> tuple[int, str]:
    reason = count[0]
    return (_ORDER.index(reason) if reason in _ORDER else len(_ORDER)), reason
