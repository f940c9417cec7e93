"""The learning rate of an imported run: recorded, or computed from its settings."""

from unisono.diagnose.answers.learning_rate import answer_learning_rate as check_learning_rate
from unisono.diagnose.answers.learning_rate import course
from unisono.diagnose.case import Case
from unisono.diagnose.imported.words import last_step, records
from unisono.diagnose.questions import reply
from unisono.diagnose.rates import rates_of, schedule_of
from unisono.diagnose.report import Answer
from unisono.diagnose.words import rounded
from unisono.schedules import Schedule


def answer_learning_rate(case: Case) -> Answer:
    """Put the settings into the formula, or tell what was recorded, or both."""
    schedule, rates = schedule_of(case.run.config), rates_of(case)
    if schedule is not None and rates is not None:
        return check_learning_rate(case)
    if schedule is not None:
        return _computed(case, schedule)
    if rates is None:
        return reply(
            "learning_rate", "unknown", f"Neither a rate nor a schedule is in {records(case)}."
        )
    return reply(
        "learning_rate",
        "answered",
        f"The rate was highest in step {rates.peak_step:,} ({rates.peak:.3g}) and stood at "
        f"{rates.last:.3g} in step {rates.last_step:,}. Why is not known: the settings are not "
        f"in {records(case)}.",
        values={
            "formula": None,
            "peak": rounded(rates.peak, 10),
            "peak_step": rates.peak_step,
            "final": rounded(rates.last, 10),
            "final_step": rates.last_step,
        },
    )


def _computed(case: Case, schedule: Schedule) -> Answer:
    last = max(1, last_step(case))
    peak_step = min(last, max(1, schedule.warmup_steps))
    return reply(
        "learning_rate",
        "answered",
        f"By the settings, {schedule(peak_step):.3g} in step {peak_step:,}, "
        f"{'where it was highest, ' if last > peak_step else ''}and {schedule(last):.3g} in "
        f"step {last:,}, the last on record. {course(schedule)} It follows the number of "
        "updates alone, never the loss.",
        values={
            "formula": schedule.formula(),
            "warmup_steps": schedule.warmup_steps,
            "peak": rounded(schedule(peak_step), 10),
            "peak_step": peak_step,
            "final": rounded(schedule(last), 10),
            "final_step": last,
            "computed": True,
        },
        evidence=[
            f"configured: {schedule.formula()}",
            f"{records(case)} has no rates to check it against",
        ],
    )
