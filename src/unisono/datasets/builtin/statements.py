"""Main clauses, alone or joined with others by and, because, if, that or to."""

from unisono.datasets.builtin import verbs
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.clauses import (
    Clause,
    english_infinitive,
    english_statement,
    german_infinitive,
    german_inverted,
    german_statement,
    german_subordinate,
)
from unisono.datasets.builtin.composition import (
    PERIODS,
    Period,
    clause_about,
    finished,
    state_clause,
    weather_clause,
)
from unisono.datasets.builtin.forms import Form
from unisono.datasets.builtin.pairs import SentencePair, sentence
from unisono.datasets.builtin.predicates import FRAMES, Predicate, moving
from unisono.datasets.builtin.selection import nobody, subject_phrase
from unisono.datasets.builtin.times import time_for

_SAME_TIME = (("because", "weil"), ("although", "obwohl"), ("while", "während"))
_CONDITIONS = (("if", "wenn"), ("as soon as", "sobald"), ("before", "bevor"))
_ENDLESS = tuple(
    (tuple(verb for verb in frame if not verb.is_stative), build)
    for frame, build in FRAMES
    if frame != (verbs.HAVE,)
)


def plain_statement(chance: Chance) -> SentencePair:
    """Say one thing, perhaps beginning with when."""
    period = chance.pick(PERIODS)
    if chance.happens(0.04):
        clause = clause_about(chance, period, subject=nobody(chance), often=0, negated=0)
    else:
        clause = clause_about(chance, period, timed=0.35, often=0.2)
    if clause.time.german or clause.frequency.german or chance.happens(0.3):
        return sentence(
            english_statement(clause), german_statement(clause), clause.combinations
        )
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
    return sentence(
        f"{english_statement(main)} {english} {english_statement(other)}",
        f"{german_statement(main)}, {german} {german_subordinate(other)}",
        main.combinations + other.combinations,
    )


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
    verb = chance.pick(verbs.SAYING)
    is_past = bool(verb.past) and chance.happens(0.4)
    main = Clause(
        subject_phrase(chance, is_negated=True),
        Predicate(verb),
        Form.PAST if is_past else Form.PRESENT,
        is_negated=chance.happens(0.15),
    )
    period = Period.PAST if is_past else chance.pick(PERIODS)
    other = (state_clause if chance.happens(0.2) else clause_about)(chance, period)
    return sentence(
        f"{english_statement(main)} that {english_statement(other)}",
        f"{german_statement(main)}, dass {german_subordinate(other)}",
        main.combinations + other.combinations,
    )


def _infinitive_for(main: Clause, chance: Chance) -> Clause:
    frame, build = chance.pick(_ENDLESS)
    predicate = build(chance.pick(frame), main.subject, False, chance)
    return Clause(main.subject, predicate)


def intended(chance: Chance) -> SentencePair:
    """Say what somebody tries or forgets to do."""
    is_negated = chance.happens(0.1)
    subject = subject_phrase(chance, is_negated=is_negated)
    predicate = Predicate(chance.pick(verbs.INTENDING))
    main = finished(
        chance, chance.pick(PERIODS), subject, predicate, timed=0, is_negated=is_negated
    )
    other = _infinitive_for(main, chance)
    return sentence(
        f"{english_statement(main)} {english_infinitive(other)}",
        f"{german_statement(main)}, {german_infinitive(other)}",
        main.combinations + other.predicate.combinations,
    )


def purposeful(chance: Chance) -> SentencePair:
    """Say what somebody goes somewhere for."""
    subject = subject_phrase(chance)
    predicate = moving(chance.pick(verbs.MOTIONS), subject, False, chance)
    main = finished(chance, chance.pick(PERIODS), subject, predicate, timed=0.2)
    other = _infinitive_for(main, chance)
    return sentence(
        f"{english_statement(main)} in order {english_infinitive(other)}",
        f"{german_statement(main)}, um {german_infinitive(other)}",
        main.combinations + other.predicate.combinations,
    )
