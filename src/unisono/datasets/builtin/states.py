"""What somebody or something is like, and where it stands."""

from unisono.datasets.builtin import verbs
from unisono.datasets.builtin.adjectives import adjectives_for
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.nouns import nouns_of
from unisono.datasets.builtin.phrases import NounPhrase
from unisono.datasets.builtin.predicates import Predicate
from unisono.datasets.builtin.selection import location
from unisono.datasets.builtin.words import Adjective, GrammaticalCase, Verb

_FURNITURE = nouns_of("furniture")
_FOR_PERSONS = adjectives_for(nouns_of("person")[0])
_DEGREES = (("very", "sehr"), ("too", "zu"), ("quite", "ziemlich"))


def standing(verb: Verb, chance: Chance) -> Predicate:
    """Say where a thing is, by the furniture around it."""
    english, german, phrase = location(chance.pick(_FURNITURE), GrammaticalCase.DATIVE, chance)
    return Predicate(verb, english, late=german, combinations=phrase.combinations)


def being(subject: NounPhrase, is_negated: bool, chance: Chance) -> Predicate:
    """Say what somebody is like."""
    return describing(chance.pick(_FOR_PERSONS), subject.noun, is_negated, chance)


def describing(adjective: Adjective, noun: str, is_negated: bool, chance: Chance) -> Predicate:
    """Say what somebody or something is like, with this adjective."""
    combinations = ((adjective.english, noun),) if noun else ()
    is_gradable = bool(adjective.german_comparative)
    if is_negated or not is_gradable or not chance.happens(0.35):
        return Predicate(
            verbs.BE, adjective.english, late=adjective.german, combinations=combinations
        )
    english, german = chance.pick(_DEGREES)
    return Predicate(
        verbs.BE,
        f"{english} {adjective.english}",
        late=f"{german} {adjective.german}",
        combinations=combinations,
    )
