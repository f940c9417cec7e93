"""A clause, and how either language orders its words in main and subordinate clauses."""

from typing import NamedTuple

from unisono.datasets.builtin.conjugation import infinitive_with_zu, verb_parts
from unisono.datasets.builtin.forms import Form, english_parts
from unisono.datasets.builtin.phrases import Combination, NounPhrase
from unisono.datasets.builtin.predicates import Predicate
from unisono.datasets.builtin.times import NOTHING, Adverbial


class Clause(NamedTuple):
    """Who does what in which verb form, when or how often, or does not."""

    subject: NounPhrase
    predicate: Predicate
    form: Form = Form.PRESENT
    time: Adverbial = NOTHING
    frequency: Adverbial = NOTHING
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
