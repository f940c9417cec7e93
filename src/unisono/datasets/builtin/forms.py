"""The verb forms both languages share, and English verbs in each of them."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from unisono.datasets.builtin.english import participle_of, third_person_of
from unisono.datasets.builtin.words import Person, Verb


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
_PAST = {Form.WANTED: "want to", Form.HAD_TO: "have to"}
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
    if form in _PAST:
        return EnglishParts(f"{form.value} {base}", "did", f"{_PAST[form]} {base}", False)
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
