"""Statements: main clauses, alone or joined with others, and short statements of fact."""

from unisono.datasets.builtin import lexicon
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.clauses import (
    PERIODS,
    Clause,
    Period,
    SentencePair,
    clause_about,
    english_infinitive,
    english_statement,
    finished,
    german_infinitive,
    german_inverted,
    german_statement,
    german_subordinate,
    sentence,
    state_clause,
    statement,
    weather_clause,
    with_subordinate,
)
from unisono.datasets.builtin.english import Form
from unisono.datasets.builtin.german import MANY, NO, SOME, A
from unisono.datasets.builtin.noun_phrases import (
    NounPhrase,
    adjective_for,
    any_phrase,
    definite_phrase,
    location,
    nobody,
    noun_phrase,
    subject_phrase,
)
from unisono.datasets.builtin.predicates import FRAMES, Predicate, describing, moving, standing
from unisono.datasets.builtin.times import english_cardinal, german_cardinal, time_for
from unisono.datasets.builtin.words import GrammaticalCase, Noun, Person

_SAME_TIME = tuple(lexicon.fixed_phrases("reasons").items())
_CONDITIONS = tuple(lexicon.fixed_phrases("conditions").items())
_ENDLESS = tuple(
    (tuple(verb for verb in frame if not verb.is_stative), build)
    for frame, build in FRAMES
    if frame != (lexicon.HAVE,)
)


def plain_statement(chance: Chance) -> SentencePair:
    """Say one thing, perhaps beginning with when."""
    period = chance.pick(PERIODS)
    if chance.happens(0.04):
        clause = clause_about(chance, period, subject=nobody(chance), often=0, negated=0)
    else:
        clause = clause_about(chance, period, timed=0.35, often=0.2)
    if clause.time.german or clause.frequency.german or chance.happens(0.3):
        return statement(clause)
    time = time_for(clause.form, clause.is_negated, chance)
    comma = "," if " " in time.english else ""
    return sentence(
        f"{time.english}{comma} {english_statement(clause)}",
        f"{time.german} {german_inverted(clause)}",
        clause.combinations,
    )


def joined_statements(chance: Chance) -> SentencePair:
    """Say two things of the same rank."""
    english, german = chance.pick((("and", " und"), ("but", ", aber")))
    period = chance.pick(PERIODS)
    first = clause_about(chance, period, timed=0.2)
    second = clause_about(chance, period, timed=0.1)
    comma = "," if english == "but" else ""
    return sentence(
        f"{english_statement(first)}{comma} {english} {english_statement(second)}",
        f"{german_statement(first)}{german} {german_statement(second)}",
        first.combinations + second.combinations,
    )


def _reason(chance: Chance) -> tuple[str, str, Clause, Clause]:
    english, german = chance.pick(_SAME_TIME)
    period = chance.pick(PERIODS)
    main = clause_about(chance, period, timed=0.15)
    if english == "while":
        period = Period.PLAIN if period is Period.FUTURE else period
        return english, german, main, clause_about(chance, period, timed=0, negated=0)
    if chance.happens(0.45):
        return english, german, main, state_clause(chance, period)
    return english, german, main, clause_about(chance, period, timed=0.15)


def _condition(chance: Chance) -> tuple[str, str, Clause, Clause]:
    english, german = chance.pick(_CONDITIONS)
    main = clause_about(chance, chance.pick((Period.GENERAL, Period.FUTURE)), timed=0.1)
    if chance.happens(0.15):
        return english, german, main, weather_clause(chance, Period.PLAIN)
    negated = 0.15 if english == "if" else 0.0
    other = clause_about(chance, Period.PLAIN, timed=0.1, often=0, negated=negated)
    return english, german, main, other


def subordinate_after(chance: Chance) -> SentencePair:
    """Give a reason or a condition after the main clause."""
    english, german, main, other = (_reason if chance.happens(0.6) else _condition)(chance)
    return with_subordinate(main, english, german, other)


def subordinate_before(chance: Chance) -> SentencePair:
    """Give a reason or a condition first, so that the main clause begins with its verb."""
    english, german, main, other = (_reason if chance.happens(0.5) else _condition)(chance)
    return sentence(
        f"{english} {english_statement(other)}, {english_statement(main)}",
        f"{german} {german_subordinate(other)}, {german_inverted(main)}",
        main.combinations + other.combinations,
    )


def reported(chance: Chance) -> SentencePair:
    """Say what somebody says or believes."""
    verb = chance.pick(lexicon.VERB_GROUPS["saying"])
    is_past = bool(verb.past) and chance.happens(0.4)
    main = Clause(
        subject_phrase(chance, is_negated=True),
        Predicate(verb),
        Form.PAST if is_past else Form.PRESENT,
        is_negated=chance.happens(0.15),
    )
    period = Period.PAST if is_past else chance.pick(PERIODS)
    other = (state_clause if chance.happens(0.2) else clause_about)(chance, period)
    return with_subordinate(main, "that", "dass", other)


def _with_infinitive(main: Clause, english: str, german: str, chance: Chance) -> SentencePair:
    frame, build = chance.pick(_ENDLESS)
    predicate = build(chance.pick(frame), main.subject, False, chance)
    other = Clause(main.subject, predicate)
    return sentence(
        f"{english_statement(main)} {english}{english_infinitive(other)}",
        f"{german_statement(main)}, {german}{german_infinitive(other)}",
        main.combinations + predicate.combinations,
    )


def intended(chance: Chance) -> SentencePair:
    """Say what somebody tries or forgets to do."""
    is_negated = chance.happens(0.1)
    subject = subject_phrase(chance, is_negated=is_negated)
    predicate = Predicate(chance.pick(lexicon.VERB_GROUPS["intending"]))
    main = finished(
        chance, chance.pick(PERIODS), subject, predicate, timed=0, is_negated=is_negated
    )
    return _with_infinitive(main, "", "", chance)


def purposeful(chance: Chance) -> SentencePair:
    """Say what somebody goes somewhere for."""
    subject = subject_phrase(chance)
    predicate = moving(chance.pick(lexicon.VERB_GROUPS["motions"]), subject, False, chance)
    main = finished(chance, chance.pick(PERIODS), subject, predicate, timed=0.2)
    return _with_infinitive(main, "in order ", "um ", chance)


_COMPARABLE = tuple(
    (adjective, tuple(noun for noun in lexicon.NOUNS if noun.family in adjective.families))
    for adjective in lexicon.ADJECTIVES
    if adjective.german_comparative
)
_GOODS = ("clothing", "text", "tool", "device", "vehicle", "indoors")
_FOR_SALE = lexicon.nouns_of("furniture", *_GOODS)
_DESCRIBED = lexicon.nouns_of("animal", *_GOODS)
_AGED = lexicon.nouns_of("person", "animal", "indoors", "top")
_AROUND = lexicon.nouns_of("person", "animal", "tool", "furniture")
_PLACES = lexicon.nouns_of("indoors", "outdoors", "top")
_PRICES = (*range(50, 1000, 50), *range(1000, 10000, 500))
_EXISTING = (A, A, NO)
_EXISTING_PLURAL = (MANY, SOME, NO)


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
    predicate = Predicate(lexicon.BE, english, late=late, combinations=second.combinations)
    return _fact(first, predicate, chance)


def _fact(subject: NounPhrase, predicate: Predicate, chance: Chance) -> SentencePair:
    period = chance.pick((Period.PAST, Period.PRESENT, Period.PRESENT))
    is_negated = chance.happens(0.15)
    clause = finished(chance, period, subject, predicate, timed=0, is_negated=is_negated)
    return statement(clause)


def quality(chance: Chance) -> SentencePair:
    """Say what a thing or an animal is like."""
    noun = chance.pick(_DESCRIBED)
    adjective = chance.pick(lexicon.adjectives_for(noun))
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
        lexicon.BE,
        f"{english_cardinal(number)} years old",
        late=f"{german_cardinal(number)} Jahre alt",
    )
    return _fact(definite_phrase(chance.pick(_AGED), chance), predicate, chance)


def posture(chance: Chance) -> SentencePair:
    """Say where a thing stands or lies."""
    verb = chance.pick(lexicon.VERB_GROUPS["postures"])
    subject = any_phrase(chance.pick(verb.objects), chance)
    form = chance.pick((Form.PRESENT, Form.PROGRESSIVE))
    return statement(Clause(subject, standing(verb, chance), form))


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
