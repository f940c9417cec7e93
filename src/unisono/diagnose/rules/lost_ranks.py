"""Processes that were lost on the way."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import MOST_STEPS, Finding
from unisono.diagnose.words import count

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
