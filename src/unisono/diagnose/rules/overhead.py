"""Time that checkpoints, validation and reading take from training."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.machine_load import disk_during_saves
from unisono.diagnose.evidence.straggler import lateness_of
from unisono.diagnose.report import Finding, finding
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
        return finding(
            "checkpoint_cost",
            f"Saving checkpoints took {percent(share)} of the time.",
            f"{count(len(saves), 'checkpoint')}, {duration(mean)} each",
            *_disk(case, saves),
            advice="Save less often (`checkpoint.every_steps`), or to a faster disk.",
        )


def _disk(case: Case, saves: Sequence[Saved]) -> list[str]:
    """Return how fast the checkpoints were written, and what the disks did meanwhile."""
    size, seconds = (
        sum(getattr(save, name) for save in saves) for name in ("bytes", "seconds")
    )
    lines = []
    if size and seconds > 0:
        lines.append(
            f"{amount_of_bytes(size / len(saves))} each: {amount_of_bytes(size / seconds)}/s "
            "to write, force to the disk, read back and verify"
        )
    leader = next((start for start in case.run.last_starts if start.rank == 0), None)
    log = case.run.machines.get(0)
    use = disk_during_saves(log, saves) if log else None
    if use is not None and leader is not None:
        lines.append(f"during saving, {use.words(leader.host)}")
        lines += use.foreign_words(leader.host)
    return lines


@dataclass(frozen=True)
class EvaluationCost:
    """Validation and test took a good part of the time."""

    fewest: int = 3

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        share, events = case.bottleneck.shares.evaluation, case.run.validations
        if not case.evaluation_is_costly or len(events) < self.fewest:
            return ()
        mean = sum(event.seconds for event in events) / len(events)
        return finding(
            "evaluation_cost",
            f"Validation and test took {percent(share)} of the time.",
            f"{count(len(events), 'validation')}, {duration(mean)} each",
            advice="Validate less often (`validation.every_steps`), on fewer sentences, or "
            "without BLEU.",
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
        return finding(
            "input_bound",
            f"Steps spent {percent(share)} of their time waiting for data.",
            f"the median of {len(rows):,} steps waited {duration(wait)}",
            *_disks(case),
            advice="Put the corpus on a local disk, and leave a core to the process that "
            "prepares batches.",
        )


def _is_of_one(case: Case) -> bool:
    """Return whether one process waits for its data, which the rule `straggler` reports."""
    late = lateness_of(case.ledger) if case.bottleneck.cause == "straggler" else None
    return late is not None and late.kind == "input"


def _disks(case: Case) -> list[str]:
    """Return what the disks did: if next to nothing, making batches takes the time."""
    lines = []
    for load in case.loads:
        if load.disk is None:
            continue
        if load.disk.is_noticeable:
            lines += [load.disk.words(load.host), *load.disk.foreign_words(load.host)]
        else:
            lines.append(
                f"the disks of {load.host} were idle, so making batches takes the time, not "
                "reading"
            )
    return lines
