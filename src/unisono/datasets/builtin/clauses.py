"""Clauses: choose subject, predicate, verb form and time that fit, and order the words."""

from enum import StrEnum
from functools import cache
from typing import NamedTuple

from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.english import Form, english_parts
from unisono.datasets.builtin.german import infinitive_with_zu, verb_parts
from unisono.datasets.builtin.lexicon import VERB_GROUPS
from unisono.datasets.builtin.noun_phrases import IT, Combination, NounPhrase, subject_phrase
from unisono.datasets.builtin.predicates import FRAMES, Predicate, being
from unisono.datasets.builtin.times import FREQUENCIES, NO_ADVERBIAL, Adverbial, time_for
from unisono.datasets.builtin.words import Verb


class SentencePair(NamedTuple):
    """An English sentence, its German translation, and the words it combines."""

    source: str
    target: str
    combinations: tuple[Combination, ...] = ()


def sentence(
    english: str, german: str, combinations: tuple[Combination, ...], mark: str = "."
) -> SentencePair:
    """Begin with a capital letter and end with a mark, in both languages."""
    return SentencePair(
        source=f"{english[0].upper()}{english[1:]}{mark}",
        target=f"{german[0].upper()}{german[1:]}{mark}",
        combinations=combinations,
    )


class Clause(NamedTuple):
    """Who does what in which verb form, when or how often, or does not."""

    subject: NounPhrase
    predicate: Predicate
    form: Form = Form.PRESENT
    time: Adverbial = NO_ADVERBIAL
    frequency: Adverbial = NO_ADVERBIAL
    is_negated: bool = False

    @property
    def combinations(self) -> tuple[Combination, ...]:
        """Collect the words the clause joins."""
        return self.subject.combinations + self.predicate.combinations


def _words(*parts: str) -> str:
    return " ".join(filter(None, parts))


def english_statement(clause: Clause) -> str:
    """Order an English clause as a statement, main or subordinate."""
    predicate = clause.predicate
    parts = english_parts(predicate.verb, clause.form, clause.subject.person)
    often = clause.frequency.english
    if clause.is_negated:
        denied = "cannot" if clause.form is Form.CAN else f"{parts.auxiliary} not"
        verb = _words(denied, parts.rest)
    elif often and parts.leads:
        verb = _words(parts.auxiliary, often, parts.rest)
    else:
        verb = _words(often, parts.plain)
    return _words(clause.subject.english, verb, predicate.english, clause.time.english)


def english_question(clause: Clause) -> str:
    """Order an English clause as a question: do, subject, verb."""
    predicate = clause.predicate
    parts = english_parts(predicate.verb, clause.form, clause.subject.person)
    return _words(
        parts.auxiliary,
        clause.subject.english,
        "not" if clause.is_negated else "",
        clause.frequency.english,
        parts.rest,
        predicate.english,
        clause.time.english,
    )


def german_statement(clause: Clause) -> str:
    """Order a German main clause with the subject first."""
    predicate = clause.predicate
    parts = verb_parts(predicate.verb, clause.form, clause.subject.person)
    subject = clause.subject.german[0]
    return _words(subject, parts.finite, predicate.pronoun, _middle(clause), parts.tail)


def german_inverted(clause: Clause) -> str:
    """Order a German main clause after its first element, or as a question."""
    parts = verb_parts(clause.predicate.verb, clause.form, clause.subject.person)
    return _words(parts.finite, _subject_and_pronoun(clause), _middle(clause), parts.tail)


def german_subordinate(clause: Clause) -> str:
    """Order a German subordinate clause: the finite verb comes last."""
    parts = verb_parts(clause.predicate.verb, clause.form, clause.subject.person)
    return _words(_subject_and_pronoun(clause), _middle(clause), parts.closing)


def statement(clause: Clause, mark: str = ".") -> SentencePair:
    """Make a clause a sentence of its own, with the subject first."""
    return sentence(
        english_statement(clause), german_statement(clause), clause.combinations, mark
    )


def with_subordinate(main: Clause, english: str, german: str, other: Clause) -> SentencePair:
    """Say a main clause and then a subordinate one, joined by these words."""
    return sentence(
        f"{english_statement(main)} {english} {english_statement(other)}",
        f"{german_statement(main)}, {german} {german_subordinate(other)}",
        main.combinations + other.combinations,
    )


def english_infinitive(clause: Clause) -> str:
    """Say what somebody tries to do, without the subject."""
    predicate = clause.predicate
    return _words("to", predicate.verb.english, predicate.english, clause.time.english)


def german_infinitive(clause: Clause) -> str:
    """Say what somebody tries to do: the infinitive with zu comes last."""
    predicate = clause.predicate
    return _words(predicate.pronoun, _middle(clause), infinitive_with_zu(predicate.verb))


def _subject_and_pronoun(clause: Clause) -> str:
    subject, pronoun = clause.subject, clause.predicate.pronoun
    # Short before long: sich goes before a noun, but not before er.
    if clause.predicate.verb.is_reflexive and not subject.is_pronoun:
        return f"{pronoun} {subject.german[0]}"
    return f"{subject.german[0]} {pronoun}" if pronoun else subject.german[0]


def _middle(clause: Clause) -> str:
    """Order what stands between the two parts of the verb, after subject and pronouns."""
    predicate = clause.predicate
    time = clause.time.german or clause.frequency.german
    if clause.form is Form.LIKE:
        time = _words(time, "gern")
    if clause.is_negated and not predicate.says_kein:
        return _words(predicate.objects, time, "nicht", predicate.late)
    return _words(time, predicate.objects, predicate.late)


class Period(StrEnum):
    """What a clause speaks of.

    PLAIN is the present after *if* and *before*, GENERAL what is so under a condition.
    """

    PAST = "past"
    PRESENT = "present"
    FUTURE = "future"
    PLAIN = "plain"
    GENERAL = "general"


_MODALS = (Form.CAN, Form.MAY, Form.MUST, Form.HAVE_TO, Form.SHOULD, Form.WANT, Form.LIKE)
_FORMS = {
    Period.PAST: (*(Form.PAST,) * 6, Form.COULD, Form.WANTED, Form.HAD_TO),
    Period.PRESENT: (*(Form.PRESENT,) * 6, *(Form.PROGRESSIVE,) * 3, *_MODALS),
    Period.GENERAL: (*(Form.PRESENT,) * 6, *_MODALS),
    Period.FUTURE: (Form.FUTURE,),
    Period.PLAIN: (Form.PRESENT,),
}
_SIMPLE = (Form.PRESENT, Form.PAST, Form.FUTURE)
PERIODS = (*(Period.PAST,) * 4, *(Period.PRESENT,) * 4, Period.FUTURE)
_WITH_ANIMALS = (
    VERB_GROUPS["activities"],
    VERB_GROUPS["separable activities"],
    VERB_GROUPS["dwelling"],
)


@cache
def _forms_for(verb: Verb, period: Period, is_negated: bool) -> tuple[Form, ...]:
    excluded = set()
    if verb.is_stative:
        excluded |= {Form.PROGRESSIVE, Form.LIKE}
    if is_negated:
        # "Must not" is "darf nicht", which *may not* says already.
        excluded |= {Form.MUST, Form.LIKE}
    if not verb.past:
        excluded.add(Form.PAST)
    allowed = _SIMPLE if verb.preterite else tuple(Form)
    return tuple(form for form in _FORMS[period] if form in allowed and form not in excluded)


def form_for(verb: Verb, period: Period, is_negated: bool, chance: Chance) -> Form:
    """Choose a verb form that fits the period."""
    return chance.pick(_forms_for(verb, period, is_negated))


def form_like(form: Form, verb: Verb, period: Period, chance: Chance) -> Form:
    """Keep the verb form of the clause before, where the verb allows it."""
    is_allowed = form in _forms_for(verb, period, False)
    return form if is_allowed else form_for(verb, period, False, chance)


def clause_about(
    chance: Chance,
    period: Period,
    *,
    subject: NounPhrase | None = None,
    timed: float = 0.3,
    often: float = 0.1,
    negated: float = 0.15,
) -> Clause:
    """Compose a clause; the numbers are the probabilities of its additions."""
    frame, build = chance.pick(FRAMES)
    verb = chance.pick(frame)
    is_negated = chance.happens(negated)
    if subject is None:
        animals = 0.3 if frame in _WITH_ANIMALS else 0.0
        subject = subject_phrase(chance, animals=animals, is_negated=is_negated)
    predicate = build(verb, subject, is_negated, chance)
    return finished(chance, period, subject, predicate, timed, often, is_negated)


def finished(
    chance: Chance,
    period: Period,
    subject: NounPhrase,
    predicate: Predicate,
    timed: float = 0.3,
    often: float = 0.0,
    is_negated: bool = False,
) -> Clause:
    """Make a clause of subject and predicate by choosing its verb form and its time."""
    form = form_for(predicate.verb, period, is_negated, chance)
    time: Adverbial = NO_ADVERBIAL
    frequency: Adverbial = NO_ADVERBIAL
    if chance.happens(timed):
        time = time_for(form, is_negated, chance)
    elif form in (Form.PRESENT, Form.PAST) and not is_negated and chance.happens(often):
        frequency = chance.pick(FREQUENCIES)
    return Clause(subject, predicate, form, time, frequency, is_negated)


def state_clause(chance: Chance, period: Period) -> Clause:
    """Compose a clause that says what somebody is like."""
    is_negated = chance.happens(0.15)
    subject = subject_phrase(chance, is_negated=is_negated)
    predicate = being(subject, is_negated, chance)
    return finished(chance, period, subject, predicate, timed=0.1, is_negated=is_negated)


def weather_clause(chance: Chance, period: Period) -> Clause:
    """Compose a clause about the weather."""
    predicate = Predicate(chance.pick(VERB_GROUPS["weather"]))
    plain = Form.PAST if period is Period.PAST else Form.PRESENT
    return Clause(IT, predicate, plain)
