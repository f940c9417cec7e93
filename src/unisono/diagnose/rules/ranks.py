"""Processes that no longer train the same model.

Processes that were lost on the way.

Processes whose records are not here.
"""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import MOST_STEPS, Finding
from unisono.diagnose.wording import count, listing
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


ADVICE = {
    "process died": "See the log of that process and of its machine's kernel: out of memory?",
    "process stopped": "Somebody or something sent it SIGSTOP, or held it in a debugger.",
    "machine or link gone": "See whether that machine is up, and its link and switch.",
    "too slow": "See in `stacks/` where it stood, and raise its limit if that is usual.",
}


@dataclass(frozen=True)
class LostRanks:
    """Processes died, stopped, went out of reach or took too long."""

    shown: int = 5

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        losses = case.run.losses
        if not losses:
            return ()
        more = len(losses) - self.shown
        lines = [
            f"about step {event.step:,}: {event.message}" for event in losses[-self.shown :]
        ]
        kinds = dict.fromkeys(event.how for event in losses)
        return (
            Finding(
                id="lost_ranks",
                severity="warning",
                summary=f"The run lost {count(len(losses), 'process', 'processes')}.",
                evidence=(*lines, *([f"and {more} before"] if more > 0 else [])),
                advice=" ".join(ADVICE[how] for how in kinds if how in ADVICE),
                steps=tuple(dict.fromkeys(event.step for event in losses[-MOST_STEPS:])),
            ),
        )


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
