"""Runs that learn too much, too little, enough, nothing, or apart from each other."""

from typing import Any

from diagnosis.course import Course, Outcome
from diagnosis.judge import Judge, Judgement
from diagnosis.truth import Twins

EVERY = 25
LESSON: dict[str, Any] = {
    "model": {
        **{"width": 64, "heads": 4, "inner": 128, "encoder_layers": 1, "decoder_layers": 1},
        **{"dropout": 0.0},
    },
    "batching": {"tokens_per_update": 1024, "tokens_per_micro_batch": 1024},
    "schedule": {"name": "inverse_sqrt", "peak": 0.004, "warmup_steps": 50},
    "validation": {"every_steps": EVERY},
}
ONSET_WITHIN = 20


def lesson(steps: int, corpus: str = "lesson", **tables: Any) -> Course:
    """Return a run of one process that learns, on one core: more would only get in its way."""
    tables = {**LESSON, **tables}
    return Course(steps=steps, nodes=1, further=1, corpus=corpus, tables=tables)


def overfits(outcome: Outcome, course: Course, twins: Twins) -> Judgement:
    """The validation loss turned; the step where is known to one evaluation."""
    answer = outcome.report.answer("overfitting")
    best = min(outcome.view.validations, key=lambda event: event.loss).step
    since = answer.values["since_step"]
    return Judgement(
        said=answer.summary,
        verdict=answer.verdict == "yes",
        culprit=since is not None and abs(since - best) <= EVERY,
        also=outcome.findings,
    )


def is_unfinished(outcome: Outcome, course: Course, twins: Twins) -> Judgement:
    """It was stopped too early; what half as many steps again bring is in the interval.

    The loss of this small language falls steeply and then stands still, which no curve
    forecasts: what is asked for is the interval, not the number in its middle.
    """
    answer = outcome.report.answer("trained")
    losses = [event.loss for event in twins.longer(course, 1.5).view.validations]
    now = outcome.view.validations[-1].loss
    gained = (now - min(losses)) / now
    low, high = (answer.values.get(f"expected_gain_{end}") for end in ("low", "high"))
    held = low is not None and high is not None and low <= gained <= high
    said = f"{answer.summary} Half more brought {gained:.1%}."
    return Judgement(said, answer.verdict == "no", held, also=outcome.findings)


def is_trained(outcome: Outcome, course: Course, twins: Twins) -> Judgement:
    """It has levelled off and does not overfit."""
    trained, over = (outcome.report.answer(name) for name in ("trained", "overfitting"))
    right = trained.verdict == "yes" and over.verdict == "no"
    return Judgement(f"{trained.summary} {over.summary}", right, also=outcome.findings)


def broke_down(step: int) -> Judge:
    """Return the judge of a run that diverges from an update on."""

    def judge(outcome: Outcome, course: Course, twins: Twins) -> Judgement:
        answer = outcome.report.answer("trained")
        began = answer.values.get("began_step")
        return Judgement(
            said=answer.summary,
            verdict=answer.verdict == "diverged",
            culprit=began is not None and step <= began <= step + ONSET_WITHIN,
            also=outcome.findings,
        )

    return judge
