"""Looks at a run from within the process that leads it, and says what it finds, once.

A look reads what all processes have written, which may lie on a slow disk, and thinks about it:
that is done by a thread, between the updates of the main one. It does so ever more rarely the
longer it takes, so that it never costs more than a small share of the time.
"""

import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from unisono.jsonl import LineWriter
from unisono.live.announcements import FindingAnnouncer, look_at
from unisono.records.events import AnyEvent, Found, Started, StepTaken, Warned, to_line
from unisono.records.follow import Follower
from unisono.records.layout import RunDirectory

ENOUGH_STEPS, ENOUGH_SECONDS = 50, 30.0  # of updates since the start; either will do
EVERY_SECONDS = 10.0
MOST_OF_THE_TIME = 0.002  # a look of 20 ms is taken every 10 s, one of 1 s every 500 s
LAST_WORD_SECONDS = 5.0


class LiveDiagnosis:
    """Told of every event of a process; looks only if that leads the run."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._thread: threading.Thread | None = None
        self._due, self._looking, self._leaving = threading.Event(), False, False
        self._news: deque[Found | Warned] = deque()
        self._step, self._steps, self._seconds = 0, 0, 0.0
        self._next = 0.0

    def saw(self, event: AnyEvent) -> list[Found | Warned]:
        """Take note of `event`; return what was found by now and is written down."""
        if isinstance(event, Started) and event.rank == 0:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        if isinstance(event, StepTaken) and self._thread is not None:
            self._step, self._steps = event.step, self._steps + 1
            self._seconds += event.seconds
            enough = self._steps >= ENOUGH_STEPS or self._seconds >= ENOUGH_SECONDS
            if enough and not self._looking and time.monotonic() >= self._next:
                self._looking = True
                self._due.set()
        return self._told()

    def finish(self) -> list[Found | Warned]:
        """Return what the last look found, if one is still under way."""
        self.close()
        return self._told()

    def _told(self) -> list[Found | Warned]:
        told = []
        while self._news:
            told.append(self._news.popleft())
        return told

    def close(self) -> None:
        """End it, after the look that is under way."""
        self._leaving = True
        self._due.set()
        if self._thread is not None:
            self._thread.join(timeout=LAST_WORD_SECONDS)
            self._thread = None

    def _work(self) -> None:
        try:
            # Now, while all that others wrote is history, unless they wrote it just before.
            self._look_again_and_again(Follower(self._run, recent=True))
        except Exception as error:  # noqa: BLE001  whatever it is, the training goes on
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            message = f"the run is no longer looked at while it goes on: {words}"
            self._say(Warned(time=time.time(), step=self._step, message=message))

    def _look_again_and_again(self, follower: Follower) -> None:
        teller: FindingAnnouncer | None = None
        while True:
            self._due.wait()
            self._due.clear()
            if not self._looking:
                return
            began, now = time.thread_time(), time.time()
            view = follower.look()
            teller = teller or FindingAnnouncer(view.found)
            look = look_at(view, now)
            for found in teller.news(look) if look is not None else []:
                self._say(found)
            cost = time.thread_time() - began
            self._next = time.monotonic() + max(EVERY_SECONDS, cost / MOST_OF_THE_TIME)
            self._looking = False
            if self._leaving:
                return

    def _say(self, event: Found | Warned) -> None:
        directory = RunDirectory(self._run)
        # A disk that is full or gone takes no event; it is said all the same.
        with suppress(OSError):
            if directory.config.is_file():
                lines = LineWriter(directory.events(0))
                lines.write(to_line(event))
                lines.close()
        self._news.append(event)
