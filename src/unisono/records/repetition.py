"""Translations that say the same again and again: counted by a validation, looked for later."""

from collections.abc import Iterable

TIMES, MOST_WORDS = 4, 4


def repeats_itself(text: str) -> bool:
    """Return whether up to four words stand four times in a row in `text`."""
    words = text.lower().split()
    return any(_recurs(words, size) for size in range(1, MOST_WORDS + 1))


def _recurs(words: list[str], size: int) -> bool:
    """Return whether `size` words are followed by themselves so many times."""
    like_before = 0
    for word, before in zip(words[size:], words, strict=False):
        like_before = like_before + 1 if word == before else 0
        if like_before == size * (TIMES - 1):
            return True
    return False


def count_repeating(translations: Iterable[str], references: Iterable[str]) -> int:
    """Return how many translations repeat themselves where the reference does not."""
    pairs = zip(translations, references, strict=True)
    return sum(repeats_itself(t) and not repeats_itself(r) for t, r in pairs)
