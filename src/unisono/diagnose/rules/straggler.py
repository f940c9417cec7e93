"""One process holds the others up."""

from dataclasses import dataclass

from unisono.diagnose.answers.step_time import lateness
from unisono.diagnose.bottleneck import late_rank
from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import percent


@dataclass(frozen=True)
class Straggler:
    """The processes waited for the same late one."""

    share: float = 0.10
    fewest: int = 20

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        share, rank = case.bottleneck.shares.straggler, late_rank(case.ledger)
        if share <= self.share or len(case.ledger.rows) < self.fewest or rank is None:
            return ()
        return (
            Finding(
                id="straggler",
                severity="warning",
                summary=f"The processes spent {percent(share)} of their time waiting for rank "
                f"{rank}.",
                evidence=tuple(lateness(case)),
                advice="Look at what else runs on its machine, at its disk and its device.",
            ),
        )
