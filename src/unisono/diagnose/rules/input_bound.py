"""Reading cannot keep up with training."""

from dataclasses import dataclass
from statistics import median

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import percent
from unisono.units import duration


@dataclass(frozen=True)
class InputBound:
    """Steps waited for their data."""

    share: float = 0.15
    fewest: int = 20

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        rows = case.ledger.usual
        total = sum(row.seconds for row in rows)
        if len(rows) < self.fewest or total <= 0:
            return ()
        share = sum(row.parts["data"] for row in rows) / total
        if share <= self.share:
            return ()
        wait = median(row.parts["data"] for row in rows)
        return (
            Finding(
                id="input_bound",
                severity="warning",
                summary=f"Steps waited for data for {percent(share)} of their time.",
                evidence=(f"median wait {duration(wait)} a step over {len(rows):,} steps",),
                advice="Put the corpus on a local disk, and leave a core to the process that "
                "prepares batches.",
            ),
        )
