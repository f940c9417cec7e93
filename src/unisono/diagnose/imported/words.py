"""Words for what an imported run is and where it was found."""

from typing import Any

from unisono.diagnose.case import Case
from unisono.records.view import Imported

GIGA, MEGA = 1e9, 1e6


def about(case: Case) -> Imported:
    """Return where the run comes from."""
    return case.run.imported or Imported(trainer="", source="")


def records(case: Case) -> str:
    """Name what the run was read from: "the log" or "the event files"."""
    return "the log" if about(case).trainer == "OpenSeq2Seq" else "the event files"


def says(case: Case) -> str:
    """Return the verb that goes with it."""
    return "says" if records(case) == "the log" else "say"


def rate(bits_per_second: float) -> str:
    """Write a rate: "1.73 Gbit/s", "100 Mbit/s"."""
    if bits_per_second >= GIGA:
        return f"{bits_per_second / GIGA:.3g} Gbit/s"
    return f"{bits_per_second / MEGA:.3g} Mbit/s"


def foreign_setting(case: Case, *path: str) -> Any:
    """Return one of the foreign trainer's own settings, or None."""
    value: Any = case.run.config.get("openseq2seq")
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def last_step(case: Case) -> int:
    """Return the last update of which there is a record."""
    steps = [event.step for event in case.run.steps[-1:]]
    return max(steps + [event.step for event in case.run.validations[-1:]], default=0)
