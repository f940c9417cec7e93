"""Diagnoses a run while it trains, and announces each finding once.

This is the one exception to "a diagnosis never runs inside training": the leading process
starts a daemon thread that reads the event files of all processes, as `unisono report` does,
and records what it finds as `found` events. It never touches the model, the exchange or the
main thread's state, it looks more rarely the longer a look takes (0.2 % of the time at most),
and whatever goes wrong in it ends the live diagnosis with a warning, not the training.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from unisono.diagnose.report import Finding
from unisono.live.window import BOTTLENECK, findings_of, recent_case, verdict_finding
from unisono.records.events import AnyEvent, Found, Started, StepTaken, Warned, to_line
from unisono.records.follow import Follower
from unisono.records.layout import RunDirectory
from unisono.records.view import RunView
from unisono.small_files import LineWriter

CERTAIN = 3  # looks in a row that must agree on a second verdict, or that a finding is over

Key = tuple[str, str]


@dataclass(frozen=True)
class Look:
    """The findings of a look at updates `first_step` to `step`; the verdict comes first."""

    time: float
    first_step: int
    step: int
    findings: tuple[Finding, ...]


def look_at(view: RunView, now: float) -> Look | None:
    """Return what a look at `now` (Unix time) finds; None if there are too few updates."""
    case = recent_case(view, now)
    if case is None:
        return None
    steps = case.run.steps
    found = (verdict_finding(case), *findings_of(case))
    return Look(now, steps[0].step, steps[-1].step, found)


@dataclass
class _Standing:
    """An announced finding: the step it was last seen at, and how many looks missed it."""

    found: Found
    seen: int
    missed: int = 0


class FindingAnnouncer:
    """Remembers what was announced, also before the run was resumed."""

    def __init__(self, said: Iterable[Found] = ()) -> None:
        self._standing: dict[Key, _Standing] = {}
        self._verdicts: set[str] = set()
        self._same_verdict: tuple[str, int] = ("", 0)
        for found in said:
            self._note(found)

    def news(self, look: Look) -> list[Found]:
        """Return what is new, and what no longer holds."""
        told = [self._event(look, one) for one in look.findings if self._is_new(look, one)]
        over = [self._over(look, found) for found in self._gone(look)]
        for found in (*told, *over):
            self._note(found)
        return [*over, *told]

    def _is_new(self, look: Look, finding: Finding) -> bool:
        if finding.id == BOTTLENECK:
            return self._is_new_verdict(_about(finding))
        key = finding.id, _about(finding)
        if key not in self._standing:
            return True
        self._standing[key] = _Standing(self._standing[key].found, look.step)
        return False

    def _is_new_verdict(self, cause: str) -> bool:
        """Return whether a verdict is new; a second one has to last for some looks."""
        before, times = self._same_verdict
        times = times + 1 if cause == before else 1
        self._same_verdict = cause, times
        lasts = times >= CERTAIN or not self._verdicts
        return cause not in self._verdicts and lasts

    def _gone(self, look: Look) -> Sequence[Found]:
        """Return what was last seen in updates that are no longer in the window.

        Several looks must have missed it: those of a fast run have no updates in common.
        """
        here = {(one.id, _about(one)) for one in look.findings}
        gone = []
        for key, standing in self._standing.items():
            standing.missed += key not in here
            if standing.missed >= CERTAIN and standing.seen < look.first_step:
                gone.append(standing.found)
        return gone

    def _note(self, found: Found) -> None:
        key = found.id, found.about
        if found.id == BOTTLENECK:
            self._verdicts.add(found.about)
        elif found.over:
            self._standing.pop(key, None)
        else:
            self._standing[key] = _Standing(found, found.step)

    def _event(self, look: Look, finding: Finding) -> Found:
        return Found(
            time=look.time,
            step=look.step,
            id=finding.id,
            about=_about(finding),
            severity=finding.severity,
            summary=finding.summary,
            advice=finding.advice,
        )

    def _over(self, look: Look, found: Found) -> Found:
        return replace(found, time=look.time, step=look.step, advice="", over=True)


def _about(finding: Finding) -> str:
    return finding.about if isinstance(finding.about, str) else ""


ENOUGH_STEPS, ENOUGH_SECONDS = 50, 30.0  # of updates since the start; either will do
EVERY_SECONDS = 10.0
MOST_OF_THE_TIME = 0.002  # a look of 20 ms is taken every 10 s, one of 1 s every 500 s
LAST_WORD_SECONDS = 5.0


class LiveDiagnosis:
    """Receives every event of a process, and diagnoses the run if that process leads it."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._thread: threading.Thread | None = None
        self._due, self._looking, self._leaving = threading.Event(), False, False
        self._news: deque[Found | Warned] = deque()
        self._step, self._steps, self._seconds = 0, 0, 0.0
        self._next = 0.0

    def saw(self, event: AnyEvent) -> list[Found | Warned]:
        """Take note of `event`; return what the thread has found and recorded by now."""
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
        """End the thread, after the look that is under way."""
        self._leaving = True
        self._due.set()
        if self._thread is not None:
            self._thread.join(timeout=LAST_WORD_SECONDS)
            self._thread = None

    def _work(self) -> None:
        try:
            # Open it now: what the files hold so far is history, but for the last lines.
            self._look_again_and_again(Follower(self._run, recent=True))
        except Exception as error:  # noqa: BLE001  whatever it is, the training goes on
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            message = f"the live diagnosis ended: {words}"
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
        # A disk that is full or gone takes no event; the terminal shows it all the same.
        with suppress(OSError):
            if directory.config.is_file():
                lines = LineWriter(directory.events(0))
                lines.write(to_line(event))
                lines.close()
        self._news.append(event)
