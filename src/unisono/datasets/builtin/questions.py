"""Questions, direct and indirect: German needs no *do*, and asks with the verb first."""

from unisono.datasets.builtin import german
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.clauses import (
    PERIODS,
    Clause,
    SentencePair,
    clause_about,
    english_question,
    finished,
    german_inverted,
    sentence,
    state_clause,
    statement,
    with_subordinate,
)
from unisono.datasets.builtin.english import Form
from unisono.datasets.builtin.lexicon import VERB_GROUPS
from unisono.datasets.builtin.noun_phrases import (
    WHO,
    Combination,
    adjective_for,
    noun_phrase,
    subject_phrase,
)
from unisono.datasets.builtin.predicates import Predicate
from unisono.datasets.builtin.words import Verb

_ON_OBJECTS = VERB_GROUPS["with accusative"] + VERB_GROUPS["separable with accusative"]
_ON_PERSONS = tuple(
    verb
    for verb in _ON_OBJECTS + VERB_GROUPS["with dative"]
    if any(noun.family == "person" for noun in verb.objects)
)
_ON_THINGS = tuple(
    verb for verb in _ON_OBJECTS if all(noun.family != "person" for noun in verb.objects)
)


def yes_or_no(chance: Chance) -> SentencePair:
    """Ask whether something is so."""
    period = chance.pick(PERIODS)
    if chance.happens(0.15):
        clause = state_clause(chance, period)
    else:
        clause = clause_about(chance, period, timed=0.35)
    return sentence(english_question(clause), german_inverted(clause), clause.combinations, "?")


def who_acts(chance: Chance) -> SentencePair:
    """Ask who does something."""
    clause = clause_about(chance, chance.pick(PERIODS), subject=WHO, timed=0.4, negated=0.1)
    return statement(clause, "?")


def _asked(verb: Verb, chance: Chance) -> Clause:
    stranded = " ".join(filter(None, (verb.particle, verb.preposition)))
    predicate = Predicate(verb, stranded)
    return finished(chance, chance.pick(PERIODS), subject_phrase(chance), predicate, timed=0.5)


def _question(
    english: str, german: str, clause: Clause, *combinations: Combination
) -> SentencePair:
    return sentence(
        f"{english} {english_question(clause)}",
        f"{german} {german_inverted(clause)}",
        clause.combinations + combinations,
        "?",
    )


def what_is_acted_on(chance: Chance) -> SentencePair:
    """Ask for the object: what, or whom in the case the verb wants."""
    if chance.happens(0.5):
        verb, english, asked = chance.pick(_ON_THINGS), "what", "was"
    else:
        verb, english = chance.pick(_ON_PERSONS), "whom"
        asked = WHO.german[verb.case]
    return _question(english, asked, _asked(verb, chance))


def which_or_how_many(chance: Chance) -> SentencePair:
    """Ask for one of several objects, or for their number."""
    verb = chance.pick(_ON_OBJECTS)
    clause = _asked(verb, chance)
    noun = chance.pick(verb.objects)
    is_plural = not noun.is_mass and chance.happens(0.5)
    determiner = german.HOW_MANY if is_plural and chance.happens(0.7) else german.WHICH
    phrase = noun_phrase(determiner, adjective_for(noun, chance), noun, is_plural)
    pairs = (*phrase.combinations, (verb.name, noun.english))
    return _question(phrase.english, phrase.german[verb.case], clause, *pairs)


def _open_question(chance: Chance) -> tuple[str, str, Clause]:
    period = chance.pick(PERIODS)
    if chance.happens(0.4):
        return "why", "warum", clause_about(chance, period, timed=0.2)
    if chance.happens(0.5):
        return "when", "wann", clause_about(chance, period, timed=0, often=0, negated=0)
    clause = clause_about(chance, period, timed=0.3, often=0, negated=0)
    if clause.predicate.has_place:
        return "why", "warum", clause
    return "where", "wo", clause


def circumstances(chance: Chance) -> SentencePair:
    """Ask where, when or why."""
    return _question(*_open_question(chance))


def indirect(chance: Chance) -> SentencePair:
    """Say that somebody does not know, or wants to know, the answer."""
    if chance.happens(0.4):
        english, asked = "whether", "ob"
        clause = clause_about(chance, chance.pick(PERIODS), timed=0.3)
    else:
        english, asked, clause = _open_question(chance)
    wants = chance.happens(0.4)
    main = Clause(
        subject_phrase(chance, is_negated=True),
        Predicate(_WISSEN),
        Form.WANT if wants else Form.PRESENT,
        is_negated=not wants,
    )
    return with_subordinate(main, english, asked, clause)


_WISSEN = next(verb for verb in VERB_GROUPS["saying"] if verb.infinitive == "wissen")
