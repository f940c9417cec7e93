"""The learning rate as configured and as recorded."""

from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import is_finite
from unisono.records.view import RunView
from unisono.schedules import Cosine, LinearDecay, Schedule


@dataclass(frozen=True)
class Rates:
    """What was recorded: the highest rate and where, the last one, and what is still to come.

    `unfinished` says in words that the schedule is not through yet, or is "".
    """

    peak: float
    peak_step: int
    last: float
    last_step: int
    unfinished: str

    @property
    def share_of_peak(self) -> float:
        """Return the last rate as a share of the highest."""
        return self.last / self.peak if self.peak > 0 else 0.0


def schedule_of(config: dict[str, Any]) -> Schedule | None:
    """Rebuild the schedule from the configuration, or None if it does not hold one."""
    table = config.get("schedule")
    if not isinstance(table, dict):
        return None
    if table.get("name") == "transformer" and not table.get("d_model"):
        width = config.get("model", {}).get("width")
        if not isinstance(width, int):
            return None
        table = {**table, "d_model": width}
    try:
        schedule: Schedule = msgspec.convert(table, Schedule)
    except msgspec.ValidationError:
        return None
    return schedule


def rates_of(case: Case) -> Rates | None:
    """Return what was recorded of the learning rate, or None if nothing was."""
    steps = [step for step in case.run.steps if is_finite(step.learning_rate)]
    if not steps:
        return None
    highest = max(steps, key=lambda step: step.learning_rate)
    last = steps[-1]
    return Rates(
        peak=highest.learning_rate,
        peak_step=highest.step,
        last=last.learning_rate,
        last_step=last.step,
        unfinished=_unfinished(schedule_of(case.run.config), last.step),
    )


def computed_rates(run: RunView) -> list[tuple[float, float]]:
    """Return the rates at the recorded steps by the schedule, if no rate was recorded."""
    schedule = schedule_of(run.config)
    if schedule is None or run.imported is None:
        return []
    return [(float(s.step), schedule(s.step)) for s in run.steps if s.step > 0]


def _unfinished(schedule: Schedule | None, step: int) -> str:
    if schedule is None:
        return ""
    if step < schedule.warmup_steps:
        return f"is still rising until step {schedule.warmup_steps:,}"
    if isinstance(schedule, Cosine | LinearDecay) and step < schedule.total_steps:
        return f"has yet to fall until step {schedule.total_steps:,}"
    return ""
