"""Noun phrases, pronouns and places in both languages, chosen and inflected together."""

from functools import cache
from typing import NamedTuple

from unisono.datasets.builtin import german
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.english import with_article
from unisono.datasets.builtin.german import Determiner, numeral, with_preposition
from unisono.datasets.builtin.lexicon import adjectives_for, nouns_of
from unisono.datasets.builtin.times import english_cardinal, german_cardinal
from unisono.datasets.builtin.words import Adjective, Agreement, GrammaticalCase, Noun, Person

Combination = tuple[str, str]


class NounPhrase(NamedTuple):
    """A noun phrase or pronoun; German forms run in the order of `GrammaticalCase`.

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


_DEFINITE = (german.THE,) * 8 + german.POSSESSIVES + (german.THIS,) * 2
_SINGULAR = (*_DEFINITE, german.A, german.A, german.A, german.EVERY)
_DEFINITE_PLURAL = (german.THE,) * 6 + german.POSSESSIVES + (german.THESE,) * 2
_NUMERALS = tuple(
    numeral(english_cardinal(number), german_cardinal(number))
    for number in (*range(2, 13), *range(2, 13), *range(13, 100))
)
_OTHER_PLURALS = (german.ALL, german.MANY, german.SOME, german.BARE, german.BARE)
_MASS = (german.BARE,) * 4 + _DEFINITE
_PERSONS = nouns_of("person")
_ANIMALS = nouns_of("animal")
# I and you have verb forms of their own, which must be common enough to learn.
_SPEAKERS = PRONOUNS[:2] + PRONOUNS


def adjective_for(noun: Noun, chance: Chance, probability: float = 0.35) -> Adjective | None:
    """Choose an adjective, or none."""
    if chance.happens(probability):
        return chance.pick(adjectives_for(noun))
    return None


def _plural_determiner(chance: Chance) -> Determiner:
    if chance.happens(0.15):
        return chance.pick(_NUMERALS)
    return chance.pick(_OTHER_PLURALS if chance.happens(0.4) else _DEFINITE_PLURAL)


def any_phrase(noun: Noun, chance: Chance) -> NounPhrase:
    """Say a noun with any determiner, in any number."""
    adjective = adjective_for(noun, chance)
    if noun.is_mass:
        return noun_phrase(chance.pick(_MASS), adjective, noun, is_plural=False)
    if chance.happens(0.3):
        return noun_phrase(_plural_determiner(chance), adjective, noun, is_plural=True)
    if chance.happens(0.06):
        owner = chance.pick(_PERSONS)
        if owner is not noun:
            named = noun_phrase(chance.pick(_DEFINITE), None, owner, is_plural=False)
            return owned(named, adjective, noun)
    return noun_phrase(chance.pick(_SINGULAR), adjective, noun, is_plural=False)


def definite_phrase(noun: Noun, chance: Chance, plurals: float = 0.2) -> NounPhrase:
    """Say a noun that is known already."""
    adjective = adjective_for(noun, chance, probability=0.25)
    if not noun.is_mass and chance.happens(plurals):
        return noun_phrase(chance.pick(_DEFINITE_PLURAL), adjective, noun, is_plural=True)
    return noun_phrase(chance.pick(_DEFINITE), adjective, noun, is_plural=False)


def missing_phrase(noun: Noun, chance: Chance) -> NounPhrase:
    """Say an indefinite noun that is negated: not a book, kein Buch."""
    is_plural = not noun.is_mass and chance.happens(0.4)
    determiner = german.NOT_ANY if is_plural or noun.is_mass else german.NOT_A
    return noun_phrase(determiner, adjective_for(noun, chance), noun, is_plural)


def subject_phrase(
    chance: Chance, *, animals: float = 0.0, is_negated: bool = False
) -> NounPhrase:
    """Choose who acts."""
    if chance.happens(0.3):
        return chance.pick(_SPEAKERS)
    noun = chance.pick(_ANIMALS if chance.happens(animals) else _PERSONS)
    if is_negated:
        return definite_phrase(noun, chance)
    return any_phrase(noun, chance)


def nobody(chance: Chance) -> NounPhrase:
    """Choose who does not act: no baker, kein Bäcker."""
    noun = chance.pick(_PERSONS)
    return noun_phrase(german.NO, adjective_for(noun, chance), noun, is_plural=False)


_TAKEN = {
    Person.FIRST: (Person.FIRST, Person.FIRST_PLURAL),
    Person.FIRST_PLURAL: (Person.FIRST, Person.FIRST_PLURAL),
    Person.SECOND: (Person.SECOND,),
    Person.THIRD: (),
    Person.THIRD_PLURAL: (),
}
_OBJECT_PRONOUNS = {
    person: tuple(pronoun for pronoun in PRONOUNS if pronoun.person not in taken)
    for person, taken in _TAKEN.items()
}


def other_pronoun(subject: NounPhrase, chance: Chance) -> NounPhrase:
    """Choose a pronoun other than the one that acts."""
    return chance.pick(_OBJECT_PRONOUNS[subject.person])


_LOCATIONS = {
    "indoors": (("in", "in"),) * 4 + (("behind", "hinter"), ("in front of", "vor")),
    "outdoors": (("in", "in"),),
    "top": (("on", "auf"),),
    "edge": (("at", "an"),),
    "furniture": (
        *(("on", "auf"), ("on", "auf"), ("under", "unter")),
        *(("next to", "neben"), ("behind", "hinter"), ("in front of", "vor")),
    ),
}
_IN_OR_OUT = (
    ("into", "in", GrammaticalCase.ACCUSATIVE),
    ("out of", "aus", GrammaticalCase.DATIVE),
)
_DIRECTIONS = {
    "indoors": _IN_OR_OUT,
    "outdoors": _IN_OR_OUT,
    "top": (("onto", "auf", GrammaticalCase.ACCUSATIVE),),
    "edge": (("from", "von", GrammaticalCase.DATIVE),),
}
_TO = ("to", "zu", GrammaticalCase.DATIVE)


def location(noun: Noun, case: GrammaticalCase, chance: Chance) -> tuple[str, str, NounPhrase]:
    """Say where in English and German; the accusative says where to."""
    english, german_preposition = chance.pick(_LOCATIONS[noun.family])
    phrase = definite_phrase(noun, chance, plurals=0.05)
    place = with_preposition(german_preposition, phrase.german[case])
    return f"{english} {phrase.english}", place, phrase


def direction(noun: Noun, chance: Chance, *, only_to: bool) -> tuple[str, str, NounPhrase]:
    """Say where somebody goes, in English and German."""
    towards = only_to or chance.happens(0.5)
    english, preposition, case = _TO if towards else chance.pick(_DIRECTIONS[noun.family])
    phrase = definite_phrase(noun, chance, plurals=0.05)
    place = with_preposition(preposition, phrase.german[case])
    return f"{english} {phrase.english}", place, phrase
