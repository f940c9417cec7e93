"""Processes whose records are not here."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import listing


@dataclass(frozen=True)
class MissingRanks:
    """Some processes of the last start left no record of their steps."""

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        missing = [rank for rank in range(case.size) if not case.run.ranks.get(rank)]
        if not case.run.steps or not missing:
            return ()
        names = listing([str(rank) for rank in missing])
        return (
            Finding(
                id="missing_ranks",
                severity="warning",
                summary=f"The records of {len(missing)} of {case.size} processes are missing.",
                evidence=(f"no steps of rank {names} in the directory `events`",),
                advice="Write the run directory to a shared disk, or copy the files "
                "`events/rank-*.jsonl` of all machines into one.",
            ),
        )
