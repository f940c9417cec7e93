"""Who has been heard of, when, and who is therefore lost. Nothing here knows the time."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.heartbeat.messages import GroupMember, Heartbeat, How, Loss

BEAT_SECONDS = 1.0
# Of the limit: what may pass in silence, and how long a process may stand still. The rest is
# for the news to travel.
SILENT_SHARE, STOPPED_SHARE = 0.75, 0.4
# Who has never been heard may have been slow to start; then it is not watched, but not lost.
FIRST_WORD_SECONDS = 30.0
# A process that failed by itself; what all found wrong together, all leave for.
FAILED_ALONE_SECONDS = 3.0
# Looks further apart than this were not made because we ourselves stood still.
ASLEEP_SECONDS = 2.0

GONE: How = "machine or link gone"
HOW: dict[str, How] = {"died": "process died", "stopped": "process stopped"}


class HeartbeatTimes:
    """Times by which others are judged, which do not pass while this process stands still."""

    def __init__(self, now: float) -> None:
        self._last, self._slept = now, 0.0

    def awake(self, now: float) -> float:
        """Return the time without what was slept through; to be asked all the time."""
        if now - self._last > ASLEEP_SECONDS:
            self._slept += now - self._last
        self._last = now
        return now - self._slept


@dataclass
class _Entry:
    member: GroupMember
    heard: float = 0.0
    report: Heartbeat | None = None
    failed: float = 0.0

    @property
    def condition(self) -> str:
        return self.report.condition if self.report else ""


class LossDetector:
    """What rank 0's watchman knows of every rank. Times are those of its `HeartbeatTimes`."""

    def __init__(self, members: Sequence[GroupMember], limit: float, now: float) -> None:
        self._entries = {member.rank: _Entry(member) for member in members}
        self._limit, self._began = limit, now
        self._lost: tuple[Loss, ...] = ()

    def hear(self, report: Heartbeat, now: float) -> None:
        """Note what a watchman says of its rank."""
        entry = self._entries.get(report.rank)
        if entry is None:
            return
        if report.condition == "failed" and entry.condition != "failed":
            entry.failed = now
        entry.report, entry.heard = report, now

    def lost(self, now: float) -> tuple[Loss, ...]:
        """Return who is lost. It stays at the first who are: the rest follows from that."""
        if not self._lost:
            found = [self._judge(entry, now) for entry in self._entries.values()]
            self._lost = tuple(loss for loss in found if loss is not None)
        return self._lost

    def unheard(self, now: float) -> tuple[GroupMember, ...]:
        """Return who should have called by now and never has."""
        if now - self._began <= FIRST_WORD_SECONDS:
            return ()
        return tuple(e.member for e in self._entries.values() if e.report is None)

    def is_settled(self, now: float) -> bool:
        """Return whether nobody is left who needs an answer."""
        gone = {loss.rank for loss in self._lost if loss.how == GONE}
        return all(self._is_settled(e, now) or e.member.rank in gone for e in self._others())

    def _others(self) -> list[_Entry]:
        return [entry for entry in self._entries.values() if entry.member.rank != 0]

    def _is_settled(self, entry: _Entry, now: float) -> bool:
        if entry.report is None:
            return True
        silent = now - entry.heard > SILENT_SHARE * self._limit
        return silent or entry.report.told or entry.condition in ("left", "failed")

    def _judge(self, entry: _Entry, now: float) -> Loss | None:
        report, rank = entry.report, entry.member.rank
        if report is None or report.condition == "left":
            return None
        if report.condition in HOW:
            return Loss(rank, HOW[report.condition], report.detail)
        if report.condition == "failed":
            waited = now - entry.failed > FAILED_ALONE_SECONDS
            alone = waited and any(e.condition == "alive" for e in self._entries.values())
            return Loss(rank, "process died", report.detail) if alone else None
        silence = now - entry.heard
        if silence > SILENT_SHARE * self._limit:
            return Loss(rank, GONE, f"silent for {silence:.0f} s")
        return None
