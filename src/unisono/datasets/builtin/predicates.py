"""What is said of the subject: a verb with its objects, places and manner, by verb frame."""

from collections.abc import Callable
from typing import NamedTuple

from unisono.datasets.builtin import lexicon
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.german import REFLEXIVES, with_preposition
from unisono.datasets.builtin.noun_phrases import (
    Combination,
    NounPhrase,
    any_phrase,
    definite_phrase,
    direction,
    location,
    missing_phrase,
    other_pronoun,
)
from unisono.datasets.builtin.words import Adjective, GrammaticalCase, Verb

_PERSONS = lexicon.nouns_of("person")
_PLACES = lexicon.nouns_of(*lexicon.PLACES)
_FURNITURE = lexicon.nouns_of("furniture")
_MANNERS = tuple(lexicon.fixed_phrases("manners").items())


class Predicate(NamedTuple):
    """A verb and all that belongs to it but subject, tense and time.

    In German, `pronoun` stands before the time, `objects` after it, `late` (manner, place,
    preposition, predicate adjective) after *nicht*. `says_kein` means the object carries
    the negation already.
    """

    verb: Verb
    english: str = ""
    pronoun: str = ""
    objects: str = ""
    late: str = ""
    combinations: tuple[Combination, ...] = ()
    says_kein: bool = False
    has_place: bool = False


Builder = Callable[[Verb, NounPhrase, bool, Chance], Predicate]


def _words(*parts: str) -> str:
    return " ".join(filter(None, parts))


def applied_to(verb: Verb, phrase: NounPhrase) -> Predicate:
    """Give a verb that takes one object in a plain case its object."""
    combinations = phrase.combinations
    if phrase.noun:
        combinations = (*combinations, (verb.name, phrase.noun))
    form = phrase.german[verb.case]
    said = phrase.english_object
    if phrase.is_pronoun:
        english = _words(verb.preposition, said, verb.particle)
        return Predicate(verb, english, pronoun=form, combinations=combinations)
    english = _words(verb.particle, verb.preposition, said)
    return Predicate(verb, english, objects=form, combinations=combinations)


def _object_phrase(
    verb: Verb, subject: NounPhrase, is_negated: bool, chance: Chance
) -> tuple[NounPhrase, bool]:
    """Choose an object, and tell whether it carries the negation."""
    noun = chance.pick(verb.objects)
    if noun.family == "person" and chance.happens(0.3):
        return other_pronoun(subject, chance), False
    if not is_negated:
        return any_phrase(noun, chance), False
    if (
        verb.case is GrammaticalCase.ACCUSATIVE
        and not verb.german_preposition
        and chance.happens(0.4)
    ):
        return missing_phrase(noun, chance), True
    return definite_phrase(noun, chance), False


def _with_circumstances(
    plain: Predicate, phrase: NounPhrase, is_negated: bool, chance: Chance
) -> Predicate:
    """Add how, or where, to what is done; in German, what is new comes after it."""
    combinations = plain.combinations
    has_place = not is_negated and chance.happens(0.5)
    if has_place:
        english, german, place = location(chance.pick(_PLACES), GrammaticalCase.DATIVE, chance)
        combinations += place.combinations
    else:
        english, german = chance.pick(_MANNERS)
    return Predicate(
        verb=plain.verb,
        english=_words(plain.english, english),
        pronoun=plain.pronoun,
        objects=plain.objects if phrase.is_definite else f"{german} {plain.objects}",
        late=german if phrase.is_definite else "",
        combinations=combinations,
        has_place=has_place,
    )


def _acting_on(verb: Verb, subject: NounPhrase, is_negated: bool, chance: Chance) -> Predicate:
    phrase, says_kein = _object_phrase(verb, subject, is_negated, chance)
    plain = applied_to(verb, phrase)
    if says_kein:
        return plain._replace(says_kein=True)
    if verb.is_stative or not chance.happens(0.3):
        return plain
    return _with_circumstances(plain, phrase, is_negated, chance)


def _concerned_with(
    verb: Verb, subject: NounPhrase, is_negated: bool, chance: Chance
) -> Predicate:
    phrase, _ = _object_phrase(verb, subject, is_negated, chance)
    combinations = phrase.combinations
    if phrase.noun:
        combinations = (*combinations, (verb.name, phrase.noun))
    return Predicate(
        verb,
        english=_words(verb.preposition, phrase.english_object),
        pronoun=REFLEXIVES[subject.person] if verb.is_reflexive else "",
        late=with_preposition(verb.german_preposition, phrase.german[verb.case]),
        combinations=combinations,
    )


def _handing_over(
    verb: Verb, subject: NounPhrase, is_negated: bool, chance: Chance
) -> Predicate:
    noun = chance.pick(verb.objects)
    says_kein = is_negated and chance.happens(0.4)
    if says_kein:
        thing = missing_phrase(noun, chance)
    else:
        thing = (definite_phrase if is_negated else any_phrase)(noun, chance)
    if chance.happens(0.25):
        receiver = other_pronoun(subject, chance)
    else:
        receiver = definite_phrase(chance.pick(_PERSONS), chance)
    if chance.happens(0.5):
        english = f"{receiver.english_object} {thing.english}"
    else:
        english = f"{thing.english} to {receiver.english_object}"
    dative, accusative = (
        receiver.german[GrammaticalCase.DATIVE],
        thing.german[GrammaticalCase.ACCUSATIVE],
    )
    return Predicate(
        verb,
        english,
        pronoun=dative if receiver.is_pronoun else "",
        objects=accusative if receiver.is_pronoun else f"{dative} {accusative}",
        combinations=(*receiver.combinations, *thing.combinations, (verb.name, thing.noun)),
        says_kein=says_kein,
    )


def _happening(verb: Verb, subject: NounPhrase, is_negated: bool, chance: Chance) -> Predicate:
    if not verb.objects or chance.happens(0.3):
        return _placeless(verb, chance)
    return dwelling(verb, subject, is_negated, chance)


def _placeless(verb: Verb, chance: Chance) -> Predicate:
    if verb.prefix or chance.happens(0.5):
        return Predicate(verb, verb.particle)
    english, german = chance.pick(_MANNERS)
    return Predicate(verb, _words(verb.particle, english), late=german)


def dwelling(verb: Verb, subject: NounPhrase, is_negated: bool, chance: Chance) -> Predicate:
    """Say where something happens or somebody is."""
    english, german, phrase = location(
        chance.pick(verb.objects), GrammaticalCase.DATIVE, chance
    )
    return Predicate(
        verb,
        english=_words(verb.particle, english),
        late=german,
        combinations=(*phrase.combinations, (verb.name, phrase.noun)),
        has_place=True,
    )


def moving(verb: Verb, subject: NounPhrase, is_negated: bool, chance: Chance) -> Predicate:
    """Say where somebody goes."""
    only_to = verb.english == "drive"
    english, german, phrase = direction(chance.pick(_PLACES), chance, only_to=only_to)
    combinations = (*phrase.combinations, (verb.name, phrase.noun))
    return Predicate(verb, english, late=german, combinations=combinations, has_place=True)


def _placing(verb: Verb, subject: NounPhrase, is_negated: bool, chance: Chance) -> Predicate:
    thing = (definite_phrase if is_negated else any_phrase)(chance.pick(verb.objects), chance)
    english, german, phrase = location(
        chance.pick(_FURNITURE), GrammaticalCase.ACCUSATIVE, chance
    )
    return Predicate(
        verb,
        english=f"{thing.english} {english}",
        objects=thing.german[GrammaticalCase.ACCUSATIVE],
        late=german,
        combinations=(*thing.combinations, *phrase.combinations, (verb.name, thing.noun)),
        has_place=True,
    )


FRAMES: tuple[tuple[tuple[Verb, ...], Builder], ...] = (
    *((lexicon.VERB_GROUPS["with accusative"], _acting_on),) * 6,
    *((lexicon.VERB_GROUPS["separable with accusative"], _acting_on),) * 5,
    *((lexicon.VERB_GROUPS["with dative"], _acting_on),) * 2,
    *((lexicon.VERB_GROUPS["with preposition"], _concerned_with),) * 3,
    *((lexicon.VERB_GROUPS["with receiver"], _handing_over),) * 2,
    *((lexicon.VERB_GROUPS["activities"], _happening),) * 2,
    *((lexicon.VERB_GROUPS["separable activities"], _happening),) * 2,
    (lexicon.VERB_GROUPS["dwelling"], dwelling),
    *((lexicon.VERB_GROUPS["motions"], moving),) * 2,
    (lexicon.VERB_GROUPS["placings"], _placing),
    ((lexicon.HAVE,), _acting_on),
)


_FOR_PERSONS = lexicon.adjectives_for(lexicon.nouns_of("person")[0])
_DEGREES = tuple(lexicon.fixed_phrases("degrees").items())


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
            lexicon.BE, adjective.english, late=adjective.german, combinations=combinations
        )
    english, german = chance.pick(_DEGREES)
    return Predicate(
        lexicon.BE,
        f"{english} {adjective.english}",
        late=f"{german} {adjective.german}",
        combinations=combinations,
    )
