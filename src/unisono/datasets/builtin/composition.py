"""Compose whole clauses: a subject, a predicate, and a verb form and time that fit both."""

from enum import StrEnum
from functools import cache

from unisono.datasets.builtin import verbs
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.clauses import Clause
from unisono.datasets.builtin.forms import Form
from unisono.datasets.builtin.phrases import IT, NounPhrase
from unisono.datasets.builtin.predicates import FRAMES, Predicate
from unisono.datasets.builtin.selection import subject_phrase
from unisono.datasets.builtin.states import being
from unisono.datasets.builtin.times import FREQUENCIES, NOTHING, Adverbial, time_for
from unisono.datasets.builtin.words import Verb


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
_WITH_ANIMALS = (verbs.ACTIVITIES, verbs.SEPARABLE_ACTIVITIES, verbs.DWELLING)


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
    return (
        form
        if form in _forms_for(verb, period, False)
        else form_for(verb, period, False, chance)
    )


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
    time: Adverbial = NOTHING
    frequency: Adverbial = NOTHING
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
    predicate = Predicate(chance.pick(verbs.WEATHER))
    plain = Form.PAST if period is Period.PAST else Form.PRESENT
    return Clause(IT, predicate, plain)
