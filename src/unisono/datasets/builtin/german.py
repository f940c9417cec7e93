"""How German articles, adjectives and nouns agree, and when a preposition swallows one."""

from dataclasses import dataclass
from functools import cache

from unisono.datasets.builtin.words import Adjective, Agreement, GrammaticalCase, Noun

Table = tuple[tuple[str, ...], ...]

# Rows: nominative, accusative, dative, genitive. Columns: masculine, feminine, neuter, plural.
_DER = (
    ("der", "die", "das", "die"),
    ("den", "die", "das", "die"),
    ("dem", "der", "dem", "den"),
    ("des", "der", "des", "der"),
)
_STRONG_ARTICLE = (
    ("er", "e", "es", "e"),
    ("en", "e", "es", "e"),
    ("em", "er", "em", "en"),
    ("es", "er", "es", "er"),
)
_EIN_ARTICLE = (
    ("", "e", "", "e"),
    ("en", "e", "", "e"),
    ("em", "er", "em", "en"),
    ("es", "er", "es", "er"),
)
_WEAK = (
    ("e", "e", "e", "en"),
    ("en", "e", "e", "en"),
    ("en", "en", "en", "en"),
    ("en", "en", "en", "en"),
)
_MIXED = (
    ("er", "e", "es", "en"),
    ("en", "e", "es", "en"),
    ("en", "en", "en", "en"),
    ("en", "en", "en", "en"),
)
_STRONG = (
    ("er", "e", "es", "e"),
    ("en", "e", "es", "e"),
    ("em", "er", "em", "en"),
    ("en", "er", "en", "er"),
)
_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """What stands before adjective and noun; rows and columns as in the tables above."""

    english: str
    german: Table
    endings: Table
    is_definite: bool = True


def inflect(
    determiner: Determiner, adjective: Adjective | None, noun: Noun, agreement: Agreement
) -> tuple[str, ...]:
    """Inflect determiner, adjective and noun together, in all four cases."""
    nouns = noun.plural if agreement is Agreement.PLURAL else noun.singular
    before = _before_noun(determiner, adjective, agreement)
    return (
        before[0] + nouns[0],
        before[1] + nouns[1],
        before[2] + nouns[2],
        before[3] + nouns[3],
    )


@cache
def _before_noun(
    determiner: Determiner, adjective: Adjective | None, agreement: Agreement
) -> tuple[str, ...]:
    """Inflect what stands before the noun, with the space that follows each word."""
    forms = []
    for case in GrammaticalCase:
        words = [determiner.german[case][agreement]]
        if adjective:
            words.append(adjective.stem + determiner.endings[case][agreement])
        forms.append("".join(f"{word} " for word in words if word))
    return tuple(forms)


def _inflected(stem: str, endings: Table) -> Table:
    return tuple(tuple(stem + ending for ending in row) for row in endings)


def _unchanging(word: str) -> Table:
    return tuple((word,) * 4 for _ in GrammaticalCase)


def _ein_word(english: str, stem: str) -> Determiner:
    return Determiner(
        english, _inflected(stem, _EIN_ARTICLE), _MIXED, stem not in ("ein", "kein")
    )


def numeral(english: str, german: str) -> Determiner:
    """Make a determiner of a cardinal number above one."""
    return Determiner(english, _unchanging(german), _STRONG, is_definite=False)


THE = Determiner("the", _DER, _WEAK)
THIS = Determiner("this", _inflected("dies", _STRONG_ARTICLE), _WEAK)
THESE = Determiner("these", THIS.german, _WEAK)
EVERY = Determiner("every", _inflected("jed", _STRONG_ARTICLE), _WEAK)
WHICH = Determiner("which", _inflected("welch", _STRONG_ARTICLE), _WEAK)
ALL = Determiner("all the", _inflected("all", _STRONG_ARTICLE), _WEAK)
MANY = Determiner("many", _inflected("viel", _STRONG_ARTICLE), _STRONG, is_definite=False)
SOME = Determiner("some", _inflected("einig", _STRONG_ARTICLE), _STRONG, is_definite=False)
HOW_MANY = Determiner("how many", _inflected("wie viel", _STRONG_ARTICLE), _STRONG)
BARE = Determiner("", _unchanging(""), _STRONG, is_definite=False)
A = _ein_word("a", "ein")
NO = _ein_word("no", "kein")
POSSESSIVES = (
    _ein_word("my", "mein"),
    _ein_word("your", "dein"),
    _ein_word("his", "sein"),
    _ein_word("her", "ihr"),
    _ein_word("our", "unser"),
    _ein_word("their", "ihr"),
)
# Negated, what was indefinite says *kein* in German, while English keeps its own article.
NOT_A = _ein_word("a", "kein")
NOT_ANY = _ein_word("", "kein")


def with_preposition(preposition: str, phrase: str) -> str:
    """Put a preposition before a phrase; in dem Haus becomes im Haus."""
    article, _, rest = phrase.partition(" ")
    contracted = _CONTRACTIONS.get((preposition, article))
    return f"{contracted} {rest}" if contracted else f"{preposition} {phrase}"
