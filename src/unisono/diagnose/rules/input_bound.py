"""Reading cannot keep up with training."""

from dataclasses import dataclass
from statistics import median

from unisono.diagnose.case import Case
from unisono.diagnose.lateness import lateness_of
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
        if share <= self.share or _is_of_one(case):
            return ()
        wait = median(row.parts["data"] for row in rows)
        return (
            Finding(
                id="input_bound",
                severity="warning",
                summary=f"Steps waited for data for {percent(share)} of their time.",
                evidence=(
                    f"median wait {duration(wait)} a step over {len(rows):,} steps",
                    *_disks(case),
                ),
                advice="Put the corpus on a local disk, and leave a core to the process that "
                "prepares batches.",
            ),
        )


def _is_of_one(case: Case) -> bool:
    """Whether it is one late process that waits for its data: `straggler` tells of it."""
    late = lateness_of(case) if case.bottleneck.cause == "straggler" else None
    return late is not None and late.kind == "input"


def _disks(case: Case) -> list[str]:
    """Return what the disks did meanwhile: nothing, and the wait is for putting together."""
    lines = []
    for load in case.loads:
        if load.disk is None:
            continue
        if load.disk.is_noticeable:
            lines += [load.disk.words(load.host), *load.disk.foreign_words(load.host)]
        else:
            lines.append(
                f"the disks of {load.host} had next to nothing to do: it is not reading that "
                "takes the time, but putting batches together"
            )
    return lines
