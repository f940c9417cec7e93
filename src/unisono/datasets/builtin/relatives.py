"""Sentences that come back to a noun: relative clauses, and pronouns for things."""

from functools import cache

from unisono.datasets.builtin import clauses
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.english import Form
from unisono.datasets.builtin.lexicon import VERB_GROUPS, adjectives_for, nouns_of
from unisono.datasets.builtin.noun_phrases import (
    Combination,
    NounPhrase,
    any_phrase,
    definite_phrase,
    pronoun_for,
    relative_for,
    silent,
    subject_phrase,
)
from unisono.datasets.builtin.predicates import Predicate, applied_to, describing
from unisono.datasets.builtin.words import Noun, Verb

_BEINGS = nouns_of("person", "animal")
_THINGS = nouns_of("clothing", "text", "tool", "device", "furniture", "vehicle")
_TAKING_OBJECTS = (
    VERB_GROUPS["with accusative"]
    + VERB_GROUPS["separable with accusative"]
    + VERB_GROUPS["with dative"]
)


@cache
def _verbs_for(noun: Noun) -> tuple[Verb, ...]:
    return tuple(verb for verb in _TAKING_OBJECTS if noun in verb.objects)


def _acting(
    noun: Noun, relative: NounPhrase, period: clauses.Period, chance: Chance
) -> tuple[str, str, clauses.Clause]:
    """Say what the noun does: who sees the cat, der die Katze sieht."""
    clause = clauses.clause_about(chance, period, subject=relative, timed=0.1, negated=0.1)
    return clauses.english_statement(clause), clauses.german_subordinate(clause), clause


def _acted_on(
    noun: Noun, relative: NounPhrase, period: clauses.Period, chance: Chance
) -> tuple[str, str, clauses.Clause]:
    """Say what is done to the noun: whom the woman visits, den die Frau besucht."""
    verb = chance.pick(_verbs_for(noun))
    stranded = " ".join(filter(None, (verb.particle, verb.preposition)))
    predicate = Predicate(verb, stranded, combinations=((verb.name, noun.english),))
    clause = clauses.finished(chance, period, subject_phrase(chance), predicate, timed=0.1)
    english = f"{relative.english_object} {clauses.english_statement(clause)}"
    return english, f"{relative.german[verb.case]} {clauses.german_subordinate(clause)}", clause


def _relative_clause(
    noun: Noun, phrase: NounPhrase, period: clauses.Period, chance: Chance
) -> tuple[str, str, tuple[Combination, ...]]:
    relative = relative_for(phrase.agreement, noun.family == "person")
    is_being = noun.family in ("person", "animal")
    build = _acting if is_being and chance.happens(0.55) else _acted_on
    english, german, clause = build(noun, relative, period, chance)
    return english, german, clause.combinations


def described_first(chance: Chance) -> clauses.SentencePair:
    """Say more about the subject in a relative clause that splits the sentence."""
    noun = chance.pick(_BEINGS if chance.happens(0.7) else _THINGS)
    phrase = definite_phrase(noun, chance)
    period = chance.pick((clauses.Period.PAST, clauses.Period.PRESENT))
    english, german, combinations = _relative_clause(noun, phrase, period, chance)
    subject = NounPhrase(
        english=f"{phrase.english} {english}",
        english_object="",
        german=(f"{phrase.german[0]}, {german},", "", "", ""),
        person=phrase.person,
        agreement=phrase.agreement,
        noun=phrase.noun,
        combinations=phrase.combinations + combinations,
    )
    if noun.family == "person" and chance.happens(0.5):
        main = clauses.clause_about(chance, period, subject=subject, timed=0.1, often=0)
    else:
        adjective = chance.pick(adjectives_for(noun))
        predicate = describing(adjective, noun.english, False, chance)
        main = clauses.finished(chance, period, subject, predicate, timed=0)
    return clauses.statement(main)


def described_last(chance: Chance) -> clauses.SentencePair:
    """Say more about the object in a relative clause at the end."""
    noun = chance.pick(_BEINGS if chance.happens(0.7) else _THINGS)
    phrase = any_phrase(noun, chance)
    predicate = applied_to(chance.pick(_verbs_for(noun)), phrase)
    period = chance.pick(clauses.PERIODS)
    main = clauses.finished(chance, period, subject_phrase(chance), predicate, timed=0)
    english, german, combinations = _relative_clause(noun, phrase, period, chance)
    return clauses.sentence(
        f"{clauses.english_statement(main)} {english}",
        f"{clauses.german_statement(main)}, {german}",
        main.combinations + combinations,
    )


def reason_in_thing(chance: Chance) -> clauses.SentencePair:
    """Give a reason that names the thing by a pronoun, whose gender is the noun's."""
    noun = chance.pick(_THINGS)
    phrase = definite_phrase(noun, chance, plurals=0.15)
    predicate = applied_to(chance.pick(_verbs_for(noun)), phrase)
    period = chance.pick((clauses.Period.PAST, clauses.Period.PRESENT))
    main = clauses.finished(chance, period, subject_phrase(chance), predicate, timed=0.1)
    reasons = [word for word in adjectives_for(noun) if word.german_comparative]
    adjective = chance.pick(reasons)
    quality = describing(adjective, noun.english, False, chance)
    form = Form.PAST if period is clauses.Period.PAST else Form.PRESENT
    other = clauses.Clause(pronoun_for(phrase), quality, form)
    return clauses.with_subordinate(main, "because", "weil", other)


def one_after_the_other(chance: Chance) -> clauses.SentencePair:
    """Do two things to one object: the second time it is a pronoun."""
    noun = chance.pick(_THINGS)
    phrase = any_phrase(noun, chance)
    subject = subject_phrase(chance)
    period = chance.pick((clauses.Period.PAST, clauses.Period.PRESENT))
    verb = chance.pick(_verbs_for(noun))
    first = clauses.finished(chance, period, subject, applied_to(verb, phrase), timed=0.1)
    verb = chance.pick([other for other in _verbs_for(noun) if other is not verb])
    predicate = applied_to(verb, pronoun_for(phrase))
    form = clauses.form_like(first.form, verb, period, chance)
    second = clauses.Clause(silent(subject.person), predicate, form)
    if first.form is form is Form.PAST and first.predicate.verb.moves == verb.moves:
        german = f"{predicate.pronoun} {verb.participle}"
    else:
        german = clauses.german_statement(second)
    return clauses.sentence(
        f"{clauses.english_statement(first)} and {clauses.english_statement(second)}",
        f"{clauses.german_statement(first)} und {german}",
        (*first.combinations, (verb.name, noun.english)),
    )
