"""Saving too often costs training time."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.disk_use import disk_during_saves
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count, percent
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
