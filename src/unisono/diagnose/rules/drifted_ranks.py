"""Processes that no longer train the same model."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import MOST_STEPS, Finding
from unisono.diagnose.words import count
from unisono.records.events import WEIGHTS_DIFFER


@dataclass(frozen=True)
class DriftedRanks:
    """The weights of the processes were compared, and were not the same."""

    shown: int = 3

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        told = [event for event in case.run.warnings if WEIGHTS_DIFFER in event.message]
        if not told:
            return ()
        return (
            Finding(
                id="drifted_ranks",
                severity="error",
                summary=f"The processes drifted apart: {count(len(told), 'time')}, first at "
                f"step {told[0].step:,}, their weights were not the same.",
                evidence=tuple(event.message for event in told[: self.shown]),
                advice="Do not trust what came after: gradients of different models were added "
                "up. Test the memory of the machine whose process differs, leave it out, and "
                "go on from a checkpoint before that step.",
                steps=tuple(event.step for event in told[:MOST_STEPS]),
            ),
        )
