"""How a run that was started elsewhere has ended."""

from pathlib import Path

from unisono.records.layout import RunDirectory
from unisono.records.view import read_run


def was_preempted(run: Path, *, since: float) -> bool:
    """Tell whether a run that started after `since` was stopped by a signal and has saved.

    torchrun exits with 1 even after a perfect save; the run itself knows better.
    """
    if not RunDirectory(run).config.is_file():
        return False
    view = read_run(run)
    if not view.last_starts or view.last_starts[0].time < since:
        return False  # what ended by a signal was an earlier session
    ended = [end for end in view.ends if end.time >= view.last_starts[0].time]
    return bool(ended) and ended[-1].reason == "signal"
