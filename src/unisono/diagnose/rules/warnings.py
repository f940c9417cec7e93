"""What the run itself complained about."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import MOST_STEPS, Finding
from unisono.diagnose.wording import count
from unisono.records.events import WEIGHTS_DIFFER


@dataclass(frozen=True)
class Warnings:
    """The run recorded troubles that it survived."""

    shown: int = 5

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        # Of weights that differ another rule tells.
        warnings = [w for w in case.run.warnings if WEIGHTS_DIFFER not in w.message]
        if not warnings:
            return ()
        more = len(warnings) - self.shown
        lines = [f"step {event.step:,}: {event.message}" for event in warnings[: self.shown]]
        return (
            Finding(
                id="warnings",
                severity="warning",
                summary=f"The run recorded {count(len(warnings), 'warning')}.",
                evidence=(*lines, *([f"and {more} more"] if more > 0 else [])),
                steps=tuple(dict.fromkeys(event.step for event in warnings[:MOST_STEPS])),
            ),
        )
