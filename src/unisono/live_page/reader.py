"""One thread reads all runs for all browsers, and bounds what that costs a run on this machine.

Each kind of drawing is due again after the time in which it costs its share of the clock: a
look of 2 ms every 5 s, charts of 8 ms every 27 s. On a machine where no run computes, or when
all are over, drawings may cost 50 times as much.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unisono.errors import UnisonoError
from unisono.live_page import parts
from unisono.live_page.followed_run import FollowedRun
from unisono.live_page.hub import Hub

LEAST_PAUSE = 1.0  # between two looks
UNWATCHED_SECONDS = 30.0  # between two looks when nobody has the page open
# Shares of one core. They add up to 0.2 %: sending counts, too, and a run may lose 0.3 %.
LOOK_SHARE, CHART_SHARE, STATE_SHARE, ANSWER_SHARE = 0.0004, 0.0003, 0.0005, 0.0008
ELSEWHERE = 50.0


@dataclass
class Chore:
    """Something to draw now and then."""

    work: Callable[[], dict[str, str]]
    share: float
    due: float = 0.0

    def done(self, now: float, factor: Callable[[], float]) -> dict[str, str]:
        """Do it, and set when it is due again."""
        began = time.thread_time()
        drawn = self.work()
        cost = time.thread_time() - began
        self.due = now + max(LEAST_PAUSE, cost / (self.share * factor()))
        return drawn


class RunReader:
    """Reads runs in a thread of its own; it calls `changed` after each change of the hub."""

    def __init__(
        self,
        paths: Sequence[Path],
        names: Sequence[str],
        hub: Hub,
        changed: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._runs = [FollowedRun(path) for path in paths]
        self._names, self._hub = names, hub
        self._changed, self._failed = changed, failed
        self._wake, self._leaving, self.watched = threading.Event(), False, False
        self._is_first = True
        self._look = Chore(self._heads, LOOK_SHARE)
        self._chores = [
            Chore(self._of_each(parts.charts), CHART_SHARE),
            Chore(self._of_each(parts.state), STATE_SHARE),
            Chore(self._of_each(parts.whole_run), ANSWER_SHARE),
        ]
        if len(paths) > 1:
            self._chores.append(Chore(self._comparison, CHART_SHARE / 2))
        self._thread = threading.Thread(target=self._work, name="reader", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wake(self) -> None:
        """Look soon: somebody has opened the page."""
        self._wake.set()

    def close(self) -> None:
        """Stop reading."""
        self._leaving = True
        self._wake.set()
        self._thread.join()

    def _work(self) -> None:
        parts.templates()
        while not self._leaving:
            try:
                self._round()
            except (OSError, UnisonoError) as error:
                self._tell({"trouble": parts.trouble(error)})
            except Exception as error:  # noqa: BLE001  our bug: the command ends with it
                self._failed(error)
                return
            pause = max(LEAST_PAUSE, self._look.due - time.monotonic())
            self._wake.wait(pause if self.watched else UNWATCHED_SECONDS)
            self._wake.clear()

    def _round(self) -> None:
        now = time.monotonic()
        drawn = self._look.done(now, self._factor)
        self._tell({"trouble": "", **drawn})
        for chore in self._chores:
            if now >= chore.due:
                self._tell(chore.done(now, self._factor))
        is_first, self._is_first = self._is_first, False
        if any(run.complete() for run in self._runs):  # one run in a round
            self.wake()
        elif not is_first:
            return
        for chore in (self._look, *self._chores):  # to read the past costs once
            chore.due = now

    def _factor(self) -> float:
        here = any(run.computes_here for run in self._runs)
        return 1.0 if here else ELSEWHERE

    def _tell(self, drawn: dict[str, str]) -> None:
        if self._hub.update(drawn):
            self._changed()

    def _heads(self) -> dict[str, str]:
        for run in self._runs:
            run.look()
        drawn = self._of_each(parts.head)()
        if len(self._runs) > 1:
            drawn |= parts.runs_table(self._runs, self._names)
        return drawn

    def _comparison(self) -> dict[str, str]:
        return parts.comparison(self._runs, self._names)

    def _of_each(
        self, draw: Callable[[FollowedRun], dict[str, str]]
    ) -> Callable[[], dict[str, str]]:
        def drawing() -> dict[str, str]:
            return {
                f"{number}/{name}": text
                for number, run in enumerate(self._runs)
                for name, text in draw(run).items()
            }

        return drawing
