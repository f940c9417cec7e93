"""English words in their forms: plurals, verb endings, a or an, tenses and modal verbs."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from unisono.datasets.builtin.words import Person, Verb

_SIBILANTS = ("s", "x", "z", "ch", "sh")
_DOUBLING = ("run", "swim", "sit", "get", "forget", "begin", "put")
_VOWELS = tuple("aeiou")


def _ends_in_consonant_y(word: str) -> bool:
    return word.endswith("y") and not word[:-1].endswith(_VOWELS)


def plural_of(noun: str) -> str:
    """Form the plural of a regular noun."""
    if _ends_in_consonant_y(noun):
        return noun[:-1] + "ies"
    if noun.endswith((*_SIBILANTS, "ato")):
        return noun + "es"
    return noun + "s"


def third_person_of(verb: str) -> str:
    """Form what he, she or it does."""
    if verb == "have":
        return "has"
    if _ends_in_consonant_y(verb):
        return verb[:-1] + "ies"
    if verb.endswith((*_SIBILANTS, "o")):
        return verb + "es"
    return verb + "s"


def participle_of(verb: str) -> str:
    """Form the -ing form."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb in _DOUBLING:
        return verb + verb[-1] + "ing"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    if verb == "travel":
        return "travelling"
    return verb + "ing"


def with_article(phrase: str) -> str:
    """Put a or an before a phrase, by its first sound."""
    sounds_like_vowel = phrase.startswith(_VOWELS) and not phrase.startswith("use")
    return f"an {phrase}" if sounds_like_vowel else f"a {phrase}"


class Form(StrEnum):
    """A tense or a modal verb. LIKE is *likes to swim*, in German *schwimmt gern*."""

    PRESENT = "present"
    PROGRESSIVE = "progressive"
    PAST = "past"
    FUTURE = "will"
    CAN = "can"
    MAY = "may"
    MUST = "must"
    SHOULD = "should"
    COULD = "could"
    WANT = "want to"
    HAVE_TO = "have to"
    LIKE = "like to"
    WANTED = "wanted to"
    HAD_TO = "had to"


_AUXILIARIES = (Form.FUTURE, Form.CAN, Form.MAY, Form.MUST, Form.SHOULD, Form.COULD)
_INFLECTED = (Form.WANT, Form.HAVE_TO, Form.LIKE)
_PAST_BASE = {Form.WANTED: "want to", Form.HAD_TO: "have to"}
_BE = ("am", "are", "is", "are", "are")
_WAS = ("was", "were", "was", "were", "were")


@dataclass(frozen=True, slots=True)
class EnglishParts:
    """An English verb: `plain` in statements, else `auxiliary` (not, subject) `rest`.

    `leads` says that the auxiliary stands in plain statements too: is buying, will buy.
    """

    plain: str
    auxiliary: str
    rest: str
    leads: bool


@cache
def english_parts(verb: Verb, form: Form, person: Person) -> EnglishParts:
    """Give the parts of an English verb for one form and one person."""
    base = verb.english
    if form in _AUXILIARIES:
        return _led(form.value, base)
    if form is Form.PROGRESSIVE:
        return _led(_BE[person], participle_of(base))
    if base == "be" and form in (Form.PRESENT, Form.PAST):
        return _led((_WAS if form is Form.PAST else _BE)[person], "")
    if form in _PAST_BASE:
        return EnglishParts(f"{form.value} {base}", "did", f"{_PAST_BASE[form]} {base}", False)
    if form is Form.PAST:
        return EnglishParts(verb.past, "did", base, False)
    return _simple_present(base, form, person)


def _led(auxiliary: str, rest: str) -> EnglishParts:
    return EnglishParts(f"{auxiliary} {rest}".strip(), auxiliary, rest, True)


def _simple_present(base: str, form: Form, person: Person) -> EnglishParts:
    rest = f"{form.value} {base}" if form in _INFLECTED else base
    if person is not Person.THIRD:
        return EnglishParts(rest, "do", rest, False)
    first, _, others = rest.partition(" ")
    plain = f"{third_person_of(first)} {others}".strip()
    return EnglishParts(plain, "does", rest, False)
