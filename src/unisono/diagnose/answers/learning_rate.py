"""What does the learning-rate curve show, and why?"""

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import Rates, is_finite, rates_of, schedule_of
from unisono.diagnose.report import Answer, reply
from unisono.diagnose.wording import count, rounded
from unisono.schedules import Constant, Cosine, LinearDecay, Schedule

TOLERANCE = 1e-6


def answer_learning_rate(case: Case) -> Answer:
    """Put the configured numbers into the formula and check it against what was recorded."""
    schedule, rates = schedule_of(case.run.config), rates_of(case.run)
    if schedule is None:
        return reply(
            "learning_rate",
            "unknown",
            "The configuration has no learning-rate schedule that this version can read.",
            values=_values(None, rates),
        )
    words = (
        f"{course(schedule)} {_example(schedule)}The rate depends on the number of updates "
        "alone, never on the loss."
    )
    if rates is None:
        return reply(
            "learning_rate",
            "answered",
            f"The run has not recorded an update yet. {words}",
            values=_values(schedule, None),
            evidence=[_configured(case, schedule)],
        )
    wrong = deviations(case, schedule)
    return reply(
        "learning_rate",
        "answered",
        f"{_shown(rates, schedule)} {words}",
        values={**_values(schedule, rates), "steps_off_formula": len(wrong)},
        evidence=[_configured(case, schedule), _check(case, wrong)],
        advice=_advice(case, rates, schedule, wrong),
    )


def deviations(case: Case, schedule: Schedule) -> list[int]:
    """Return the steps whose recorded rate is not the formula's."""
    wrong = []
    for step in case.run.steps:
        if step.step < 1 or not is_finite(step.learning_rate):
            continue  # imported, and not known
        due = schedule(step.step)
        if abs(step.learning_rate - due) > TOLERANCE * max(due, 1e-12):
            wrong.append(step.step)
    return wrong


def _values(schedule: Schedule | None, rates: Rates | None) -> dict[str, object]:
    values: dict[str, object] = {"formula": schedule.formula() if schedule else None}
    if schedule:
        values["warmup_steps"] = schedule.warmup_steps
    if rates:
        values |= {
            "peak": rounded(rates.peak, 10),
            "peak_step": rates.peak_step,
            "final": rounded(rates.last, 10),
            "final_step": rates.last_step,
        }
    return values


def _shown(rates: Rates, schedule: Schedule) -> str:
    if rates.last_step < schedule.warmup_steps:
        return (
            f"The rate was still rising at the end, to {rates.last:.3g} at step "
            f"{rates.last_step:,}; the warm-up lasts until step {schedule.warmup_steps:,}."
        )
    if schedule.warmup_steps and rates.peak_step == schedule.warmup_steps:
        return (
            f"The rate rose to its peak of {rates.peak:.3g} at step {rates.peak_step:,}, the "
            f"end of the warm-up, and was {rates.last:.3g} at step {rates.last_step:,}."
        )
    return (
        f"The rate peaked at step {rates.peak_step:,} ({rates.peak:.3g}) and was "
        f"{rates.last:.3g} at step {rates.last_step:,}."
    )


def course(schedule: Schedule) -> str:
    """Describe the schedule in a sentence that a student can repeat."""
    warmup = schedule.warmup_steps
    rise = f"It rises linearly for {count(warmup, 'update')} (warm-up), then "
    if not warmup:
        rise = "Without a warm-up, it "
    if isinstance(schedule, Constant):
        return f"{rise}stays at {schedule.peak:g}."
    if isinstance(schedule, Cosine):
        end = f"{schedule.floor:g} at step {schedule.total_steps:,}"
        return f"{rise}falls along half a cosine wave to {end}."
    if isinstance(schedule, LinearDecay):
        end = f"{schedule.floor:g} at step {schedule.total_steps:,}"
        return f"{rise}falls linearly to {end}."
    return f"{rise}falls as 1/√step: four times as many updates halve it."


def _example(schedule: Schedule) -> str:
    """Put one step into the formula: the one at which the rate is half of its peak."""
    warmup = schedule.warmup_steps
    if isinstance(schedule, Constant):
        return ""
    if isinstance(schedule, Cosine | LinearDecay):
        if schedule.total_steps <= warmup:
            return ""
        step = (warmup + schedule.total_steps) // 2
        return f"Halfway down, at step {step:,}, it is {schedule(step):.3g}. "
    step = 4 * max(1, warmup)
    return (
        f"At step {max(1, warmup):,} it is {schedule(max(1, warmup)):.3g}, at step {step:,} "
        f"{schedule(step):.3g}. "
    )


def _configured(case: Case, schedule: Schedule) -> str:
    table = case.run.config["schedule"]
    chosen = ", ".join(f"{key} = {value}" for key, value in table.items() if key != "name")
    return f"configured: `{table['name']}` with {chosen}: {schedule.formula()}"


def _rolled_back(case: Case) -> bool:
    return any("of the learning rate" in event.message for event in case.run.warnings)


def _check(case: Case, wrong: list[int]) -> str:
    total = count(len(case.run.steps), "recorded rate")
    if not wrong:
        return f"{total} checked against the formula: all match"
    differ = f"{len(wrong):,} differ, the first at step {wrong[0]:,}"
    return f"{total} checked against the formula: {differ}"


def _advice(case: Case, rates: Rates, schedule: Schedule, wrong: list[int]) -> str:
    if wrong and _rolled_back(case):
        return "The run diverged, rolled back and went on with a lower rate: see the findings."
    if wrong:
        return "The rates do not follow the configuration. Was it changed between two starts?"
    if rates.last_step < schedule.warmup_steps and not (case.divergence or case.should_stop):
        return "Train past the warm-up before you judge the run."
    return ""
