"""What the training itself said while it went on, and how soon: its `found` events."""

from collections.abc import Iterable
from dataclasses import dataclass

from diagnosis.course import Outcome
from unisono.records.events import Found
from unisono.records.view import RunView

BOTTLENECK = "bottleneck"
MOST_STEPS, MOST_SECONDS = 50, 30.0  # either will do


@dataclass(frozen=True)
class Said:
    """After how many updates, and seconds of them, something was said of a fault."""

    steps: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.steps} / {self.seconds:.0f} s"


@dataclass(frozen=True)
class Live:
    """Whether a run said in time what is wrong with it.

    `said` is None if it never did, `in_time` if the run was over before that can be asked.
    """

    said: Said | None
    in_time: bool | None


OVER = Live(None, None)


def live(outcome: Outcome, finding: str, cause: str = "") -> Live:
    """Return when the run first named the finding, or the cause as what holds it up.

    Time counts from the first update, or from the one after which the fault began.
    """
    view, after = outcome.view, outcome.notes.get("changed_after_step", 0)
    steps = [step for step in view.steps if step.step > after]
    if not steps:
        return OVER
    began = steps[0].time - steps[0].seconds
    # What is under way when the time is up is finished before anybody looks.
    grace = max(step.seconds for step in steps)
    right = [
        found for found in view.found if found.step > after and _names(found, finding, cause)
    ]
    if not right:
        lasted = steps[-1].time - began
        enough = len(steps) > MOST_STEPS or lasted > MOST_SECONDS + grace
        return Live(None, False if enough else None)
    said = Said(right[0].step - after, right[0].time - began)
    quick = said.steps <= MOST_STEPS + 1 or said.seconds <= MOST_SECONDS + grace
    return Live(said, quick)


def _names(found: Found, finding: str, cause: str) -> bool:
    if found.over:
        return False
    if found.id == BOTTLENECK:
        return bool(cause) and found.about.split(",")[0] == cause
    return bool(finding) and found.id == finding


def said_besides(view: RunView, allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the findings that a run said while it went on, but for those allowed."""
    known = {BOTTLENECK, *allowed}
    return tuple(sorted({found.id for found in view.found if not found.over} - known))
