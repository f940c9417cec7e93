"""How a run that was started elsewhere has ended."""

from pathlib import Path

from unisono.records.layout import RunDirectory
from unisono.records.status import read_status


def was_preempted(run: Path, *, since: float) -> bool:
    """Tell whether a run that ended after `since` was stopped by a signal and has saved.

    torchrun exits with 1 even after a perfect save; the run itself knows better.
    """
    status = read_status(RunDirectory(run))
    # What an earlier session says of itself does not count.
    return status is not None and status.state == "preempted" and status.time >= since
