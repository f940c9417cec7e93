"""Sends the points and alerts of a run to an experiment tracker, each once.

A tracker that does not answer costs nothing but tries: what it missed is in the records of the
run, and comes when it answers again, also from a later call.
"""

import hashlib
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from unisono.diagnose.case import Case, open_case
from unisono.publish.alerts import Alert, alerts_of
from unisono.publish.feed import RunFeed
from unisono.publish.points import Point
from unisono.publish.retry import NotTakenError, Retry
from unisono.publish.sent import SentStore
from unisono.records.follow import Follower

LONGEST_LOOK_SECONDS = 2.0  # then alerts may be waiting again


class RunFacts(msgspec.Struct, frozen=True):
    """What a tracker shows of a run beside its points.

    `identity` is random and belongs to this run and tracker alone; `began` is Unix time.
    """

    name: str
    identity: str
    began: float
    settings: dict[str, Any]
    tags: dict[str, str]


class Tracker(Protocol):
    """An experiment tracker. Every method raises NotTakenError if it does not answer."""

    @property
    def place(self) -> str:
        """What tells this tracker and project from others; it may be secret."""

    def open(self, facts: RunFacts, known: str) -> str:
        """Begin the run there, or go on with the one that is `known` there; return its id."""

    def log(self, points: Sequence[Point]) -> None:
        """Record points."""

    def alert(self, fresh: Sequence[Alert], everything: Sequence[Alert]) -> None:
        """Show new alerts; `everything` holds all alerts of the run so far."""

    def close(self, state: str) -> None:
        """The run is over, as `state` says: finished, stopped or failed."""


class TakenPoints(msgspec.Struct, frozen=True):
    """What a tracker has taken: the id of the run there, alerts, and bytes of each stream."""

    identity: str = ""
    known: str = ""
    alerts: list[str] = []
    offsets: dict[str, int] = {}
    format: int = 1


class TrackedRun:
    """One run and one tracker. `kind` is the tracker's name."""

    def __init__(self, run: Path, kind: str, tracker: Tracker) -> None:
        self.run, self.retry = run, Retry()
        self._tracker, self._is_open = tracker, False
        self._follower = Follower(run)
        known = hashlib.sha256(tracker.place.encode()).hexdigest()
        self._sent = SentStore(run, kind, known, TakenPoints)
        self._taken = self._sent.read()
        if not self._taken.identity:
            self._remember(identity=secrets.token_hex(8))
        self._feed = RunFeed(run, self._taken.offsets)

    def look(self, now: float) -> tuple[str, list[object]]:
        """Read what is new and send what can be; return the run's state and what remains."""
        case = open_case(self._follower.look(), now)
        everything = alerts_of(case)
        waiting: list[object] = [a for a in everything if a.key not in self._taken.alerts]
        if not case.sessions or not self.retry.is_due:
            return case.state, waiting or ([self._taken] if self.retry.refused else [])
        try:
            self._send_alerts(case, everything)
            waiting = self._send_points(case)
        except NotTakenError as error:
            self.retry.failed(str(error))
            return case.state, waiting or [error]
        self.retry.worked()
        return case.state, waiting

    def close(self, state: str) -> None:
        """Say that the run is over, and let others send it."""
        try:
            if self._is_open:
                self._tracker.close(state)
        except NotTakenError as error:
            self.retry.failed(str(error))
        finally:
            self._sent.close()

    def _open(self, case: Case) -> None:
        """Begin the run there, when there is something to send."""
        if self._is_open:
            return
        known = self._tracker.open(
            _facts(self.run, case, self._taken.identity), self._taken.known
        )
        self._remember(known=known)
        self._is_open = True

    def _send_alerts(self, case: Case, everything: Sequence[Alert]) -> None:
        fresh = [alert for alert in everything if alert.key not in self._taken.alerts]
        if fresh:
            self._open(case)
            self._tracker.alert(fresh, everything)
            self._remember(alerts=[*self._taken.alerts, *(alert.key for alert in fresh)])

    def _send_points(self, case: Case) -> list[object]:
        """Send batches for some time; return what is known to remain."""
        hosts = {start.rank: start.host for start in case.run.last_starts}
        began, until = case.sessions[0].began, time.monotonic() + LONGEST_LOOK_SECONDS
        is_over = case.state in ("finished", "stopped", "failed")
        while True:
            batch = self._feed.next(hosts, began, is_over=is_over)
            if not batch.points:
                return []
            if time.monotonic() >= until:
                return list(batch.points)
            self._open(case)
            self._tracker.log(batch.points)
            self._feed.taken(batch)
            self._remember(offsets=batch.offsets)

    def _remember(self, **taken: Any) -> None:
        self._taken = msgspec.structs.replace(self._taken, **taken)
        self._sent.write(self._taken)


def _facts(run: Path, case: Case, identity: str) -> RunFacts:
    starts = case.run.last_starts
    return RunFacts(
        name=run.resolve().name,
        identity=identity,
        began=case.sessions[0].began,
        settings=case.run.config,
        tags={
            "unisono.run": identity,
            "unisono.version": str(case.run.environment.get("unisono", "")),
            "unisono.machines": ", ".join(case.run.hosts),
            "unisono.processes": str(len(starts)),
            "unisono.strategy": starts[0].strategy if starts else "",
        },
    )


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested settings as one table: `train.max_steps` and so on."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            found[prefix + name] = text
    return found
