"""Saving too often costs training time."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count, percent
from unisono.units import duration


@dataclass(frozen=True)
class CheckpointCost:
    """Checkpoints took a good part of the time."""

    share: float = 0.10
    fewest: int = 3

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        share, saves = case.bottleneck.shares.checkpoint, case.run.saves
        if share <= self.share or len(saves) < self.fewest:
            return ()
        mean = case.ledger.checkpoint / len(saves)
        return (
            Finding(
                id="checkpoint_cost",
                severity="warning",
                summary=f"Saving checkpoints took {percent(share)} of the time.",
                evidence=(f"{count(len(saves), 'checkpoint')}, {duration(mean)} each",),
                advice="Save less often (`checkpoint.every_steps`), or to a faster disk.",
            ),
        )
