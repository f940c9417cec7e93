"""Noun phrases in both languages at once, chosen and inflected together."""

from functools import cache
from typing import NamedTuple

from unisono.datasets.builtin import german
from unisono.datasets.builtin.english import with_article
from unisono.datasets.builtin.german import Determiner
from unisono.datasets.builtin.words import Adjective, Agreement, Noun, Person

Combination = tuple[str, str]


class NounPhrase(NamedTuple):
    """A noun phrase or pronoun; German forms run in the order of `Case`.

    `combinations` are the adjective and noun it joins, `noun` is empty for a pronoun.
    """

    english: str
    english_object: str
    german: tuple[str, ...]
    person: Person
    agreement: Agreement
    noun: str = ""
    is_definite: bool = True
    combinations: tuple[Combination, ...] = ()

    @property
    def is_pronoun(self) -> bool:
        """Tell whether the phrase is a pronoun, which German puts first."""
        return not self.noun


def _pronoun(english: str, english_object: str, forms: str, person: Person) -> NounPhrase:
    nominative, accusative, dative = forms.split()
    is_plural = person in (Person.FIRST_PLURAL, Person.THIRD_PLURAL)
    agreement = Agreement.PLURAL if is_plural else Agreement.MASCULINE
    german_forms = (nominative, accusative, dative, "")
    return NounPhrase(english, english_object, german_forms, person, agreement)


PRONOUNS = (
    _pronoun("I", "me", "ich mich mir", Person.FIRST),
    _pronoun("you", "you", "du dich dir", Person.SECOND),
    _pronoun("he", "him", "er ihn ihm", Person.THIRD),
    _pronoun("she", "her", "sie sie ihr", Person.THIRD),
    _pronoun("we", "us", "wir uns uns", Person.FIRST_PLURAL),
    _pronoun("they", "them", "sie sie ihnen", Person.THIRD_PLURAL),
)
WHO = _pronoun("who", "whom", "wer wen wem", Person.THIRD)
_IT = {
    Agreement.MASCULINE: _pronoun("it", "it", "er ihn ihm", Person.THIRD),
    Agreement.FEMININE: _pronoun("it", "it", "sie sie ihr", Person.THIRD),
    Agreement.NEUTER: _pronoun("it", "it", "es es ihm", Person.THIRD),
    Agreement.PLURAL: PRONOUNS[5],
}
IT = _IT[Agreement.NEUTER]
_RELATIVES = {
    Agreement.MASCULINE: "der den dem",
    Agreement.FEMININE: "die die der",
    Agreement.NEUTER: "das das dem",
    Agreement.PLURAL: "die die denen",
}


def pronoun_for(phrase: NounPhrase) -> NounPhrase:
    """Give the pronoun that stands for a thing named before."""
    return _IT[phrase.agreement]


@cache
def silent(person: Person) -> NounPhrase:
    """Give a subject that is understood and not said again."""
    return NounPhrase("", "", ("", "", "", ""), person, Agreement.MASCULINE)


@cache
def relative_for(agreement: Agreement, is_person: bool) -> NounPhrase:
    """Give the relative pronoun for a phrase; its object form is used for objects."""
    person = Person.THIRD_PLURAL if agreement is Agreement.PLURAL else Person.THIRD
    english, english_object = ("who", "whom") if is_person else ("that", "that")
    return _pronoun(english, english_object, _RELATIVES[agreement], person)


def noun_phrase(
    determiner: Determiner, adjective: Adjective | None, noun: Noun, is_plural: bool
) -> NounPhrase:
    """Join a determiner, perhaps an adjective, and a noun in one number."""
    agreement = Agreement.PLURAL if is_plural else noun.gender
    english_noun = noun.english_plural if is_plural else noun.english
    described = f"{adjective.english} {english_noun}" if adjective else english_noun
    if determiner.english == "a":
        english = with_article(described)
    else:
        english = f"{determiner.english} {described}" if determiner.english else described
    return NounPhrase(
        english=english,
        english_object=english,
        german=german.inflect(determiner, adjective, noun, agreement),
        person=Person.THIRD_PLURAL if is_plural else Person.THIRD,
        agreement=agreement,
        noun=noun.english,
        is_definite=determiner.is_definite,
        combinations=((adjective.english, noun.english),) if adjective else (),
    )


def owned(owner: NounPhrase, adjective: Adjective | None, noun: Noun) -> NounPhrase:
    """Say whose it is: the teacher's old car, das alte Auto des Lehrers."""
    plain = noun_phrase(german.THE, adjective, noun, is_plural=False)
    english = f"{owner.english}'s {plain.english.removeprefix('the ')}"
    return NounPhrase(
        english=english,
        english_object=english,
        german=tuple(f"{form} {owner.german[3]}" for form in plain.german),
        person=plain.person,
        agreement=plain.agreement,
        noun=plain.noun,
        combinations=plain.combinations + owner.combinations,
    )
