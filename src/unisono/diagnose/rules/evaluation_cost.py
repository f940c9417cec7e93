"""Validating too often costs training time."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count, percent
from unisono.units import duration


@dataclass(frozen=True)
class EvaluationCost:
    """Validation and test took a good part of the time."""

    share: float = 0.20
    fewest: int = 3

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        share, events = case.bottleneck.shares.evaluation, case.run.validations
        if share <= self.share or len(events) < self.fewest:
            return ()
        mean = sum(event.seconds for event in events) / len(events)
        return (
            Finding(
                id="evaluation_cost",
                severity="warning",
                summary=f"Validation and test took {percent(share)} of the time.",
                evidence=(f"{count(len(events), 'validation')}, {duration(mean)} each",),
                advice="Validate less often (`validation.every_steps`), on fewer sentences, or "
                "without BLEU.",
            ),
        )
