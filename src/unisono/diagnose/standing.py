"""What of a run still counts after it went back to a checkpoint."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from unisono.records.events import Saved, Started, StepTaken, Validated
from unisono.records.view import RunView

E = TypeVar("E", StepTaken, Validated, Saved)


def as_it_stands(run: RunView) -> RunView:
    """Return the run without what a later start undid.

    A run that was killed at step 1900 goes on from its checkpoint at 1000. Until it is past
    1900 again, what was recorded between the two belongs to weights that no longer exist.
    """
    leaders = [start for start in run.starts if start.rank == 0]
    if len(leaders) < 2:
        return run
    return replace(
        run,
        ranks={rank: _standing(steps, leaders) for rank, steps in run.ranks.items()},
        validations=_standing(run.validations, leaders),
        saves=_standing(run.saves, leaders),
    )


def _standing(events: Sequence[E], starts: Sequence[Started]) -> tuple[E, ...]:
    return tuple(
        event
        for event in events
        if not any(start.time > event.time and start.step < event.step for start in starts)
    )
