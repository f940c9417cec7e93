"""Short statements of fact: comparisons, prices, ages, where things are, what there is."""

from unisono.datasets.builtin import german, verbs
from unisono.datasets.builtin.adjectives import ADJECTIVES, adjectives_for
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.clauses import Clause, english_statement, german_statement
from unisono.datasets.builtin.composition import Period, finished
from unisono.datasets.builtin.forms import Form
from unisono.datasets.builtin.nouns import NOUNS, nouns_of
from unisono.datasets.builtin.numerals import english_cardinal, german_cardinal
from unisono.datasets.builtin.pairs import SentencePair, sentence
from unisono.datasets.builtin.phrases import NounPhrase, noun_phrase
from unisono.datasets.builtin.predicates import Predicate
from unisono.datasets.builtin.selection import (
    adjective_for,
    any_phrase,
    definite_phrase,
    location,
)
from unisono.datasets.builtin.states import describing, standing
from unisono.datasets.builtin.words import GrammaticalCase, Noun, Person

_COMPARED = tuple(
    tuple(noun for noun in NOUNS if noun.family in adjective.families)
    for adjective in ADJECTIVES
)
_COMPARABLE = tuple(
    (adjective, nouns)
    for adjective, nouns in zip(ADJECTIVES, _COMPARED, strict=True)
    if adjective.german_comparative
)
_FOR_SALE = nouns_of("clothing", "text", "tool", "device", "furniture", "vehicle", "indoors")
_DESCRIBED = nouns_of("animal", "clothing", "text", "tool", "device", "vehicle", "indoors")
_AGED = nouns_of("person", "animal", "indoors", "top")
_AROUND = nouns_of("person", "animal", "tool", "furniture")
_PLACES = nouns_of("indoors", "outdoors", "top")
_PRICES = (*range(50, 1000, 50), *range(1000, 10000, 500))
_EXISTING = (german.A, german.A, german.NO)
_EXISTING_PLURAL = (german.MANY, german.SOME, german.NO)


def comparison(chance: Chance) -> SentencePair:
    """Say that one is bigger than another, or as big."""
    adjective, nouns = chance.pick(_COMPARABLE)
    noun = chance.pick(nouns)
    others = [other for other in nouns if other.family == noun.family and other is not noun]
    first = definite_phrase(noun, chance)
    second = definite_phrase(chance.pick(others), chance)
    if chance.happens(0.6):
        english = f"{adjective.english_comparative} than {second.english}"
        late = f"{adjective.german_comparative} als {second.german[0]}"
    else:
        english = f"as {adjective.english} as {second.english}"
        late = f"so {adjective.german} wie {second.german[0]}"
    predicate = Predicate(verbs.BE, english, late=late, combinations=second.combinations)
    return _fact(first, predicate, chance)


def _fact(subject: NounPhrase, predicate: Predicate, chance: Chance) -> SentencePair:
    period = chance.pick((Period.PAST, Period.PRESENT, Period.PRESENT))
    is_negated = chance.happens(0.15)
    clause = finished(chance, period, subject, predicate, timed=0, is_negated=is_negated)
    return sentence(english_statement(clause), german_statement(clause), clause.combinations)


def quality(chance: Chance) -> SentencePair:
    """Say what a thing or an animal is like."""
    noun = chance.pick(_DESCRIBED)
    adjective = chance.pick(adjectives_for(noun))
    return _fact(
        definite_phrase(noun, chance, plurals=0.3),
        describing(adjective, noun.english, True, chance),
        chance,
    )


def price(chance: Chance) -> SentencePair:
    """Say what a thing costs; the two languages group thousands differently."""
    subject = definite_phrase(chance.pick(_FOR_SALE), chance)
    amount = f"{chance.pick(_PRICES):,}"
    is_plural = subject.person is Person.THIRD_PLURAL
    return sentence(
        f"{subject.english} {'cost' if is_plural else 'costs'} {amount} euros",
        f"{subject.german[0]} {'kosten' if is_plural else 'kostet'}"
        f" {amount.replace(',', '.')} Euro",
        subject.combinations,
    )


def age(chance: Chance) -> SentencePair:
    """Say how old somebody or something is."""
    number = chance.pick(range(2, 100))
    predicate = Predicate(
        verbs.BE,
        f"{english_cardinal(number)} years old",
        late=f"{german_cardinal(number)} Jahre alt",
    )
    return _fact(definite_phrase(chance.pick(_AGED), chance), predicate, chance)


def posture(chance: Chance) -> SentencePair:
    """Say where a thing stands or lies."""
    verb = chance.pick(verbs.POSTURES)
    subject = any_phrase(chance.pick(verb.objects), chance)
    form = chance.pick((Form.PRESENT, Form.PROGRESSIVE))
    clause = Clause(subject, standing(verb, chance), form)
    return sentence(english_statement(clause), german_statement(clause), clause.combinations)


def _some_phrase(noun: Noun, chance: Chance) -> NounPhrase:
    is_plural = chance.happens(0.5)
    determiner = chance.pick(_EXISTING_PLURAL if is_plural else _EXISTING)
    return noun_phrase(determiner, adjective_for(noun, chance, 0.5), noun, is_plural)


def existence(chance: Chance) -> SentencePair:
    """Say what there is somewhere; German begins with the place."""
    phrase = _some_phrase(chance.pick(_AROUND), chance)
    english, german_place, place = location(
        chance.pick(_PLACES), GrammaticalCase.DATIVE, chance
    )
    verb = "are" if phrase.person is Person.THIRD_PLURAL else "is"
    return sentence(
        f"there {verb} {phrase.english} {english}",
        f"{german_place} gibt es {phrase.german[GrammaticalCase.ACCUSATIVE]}",
        phrase.combinations + place.combinations,
    )
