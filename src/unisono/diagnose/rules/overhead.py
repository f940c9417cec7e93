"""Saving too often costs training time.

Validating too often costs training time.

Reading cannot keep up with training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.machine_load import disk_during_saves
from unisono.diagnose.evidence.straggler_of_run import lateness_of
from unisono.diagnose.report import Finding
from unisono.diagnose.wording import count, percent
from unisono.records.events import Saved
from unisono.units import amount_of_bytes, duration


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
                evidence=(
                    f"{count(len(saves), 'checkpoint')}, {duration(mean)} each",
                    *_disk(case, saves),
                ),
                advice="Save less often (`checkpoint.every_steps`), or to a faster disk.",
            ),
        )


def _disk(case: Case, saves: Sequence[Saved]) -> list[str]:
    """Return how fast they were written and verified, and what the disks did meanwhile."""
    size, seconds = (
        sum(getattr(save, name) for save in saves) for name in ("bytes", "seconds")
    )
    lines = []
    if size and seconds > 0:
        lines.append(
            f"{amount_of_bytes(size / len(saves))} each: {amount_of_bytes(size / seconds)}/s "
            "to be written, forced to the disk, read back and verified"
        )
    leader = next((start for start in case.run.last_starts if start.rank == 0), None)
    log = case.run.machines.get(0)
    use = disk_during_saves(log, saves) if log else None
    if use is not None and leader is not None:
        lines.append(f"meanwhile {use.words(leader.host)}")
        lines += use.foreign_words(leader.host)
    return lines


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
