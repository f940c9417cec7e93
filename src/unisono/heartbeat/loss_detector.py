"""Who is lost, decided from heartbeats and from silence. The caller supplies the time."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.heartbeat.messages import GroupMember, Heartbeat, How, Loss

BEAT_SECONDS = 1.0
# Shares of the limit: how long a rank may be silent, and how long a process may be stopped. The
# rest of the limit is for the news to travel.
SILENT_SHARE, STOPPED_SHARE = 0.75, 0.4
# A rank without any heartbeat may have been slow to start: it is reported, but it is not lost.
FIRST_HEARTBEAT_SECONDS = 30.0
# An error counts as a loss if, after this long, other ranks still run.
FAILED_ALONE_SECONDS = 3.0
# If two readings of the clock are further apart than this, this process itself was stopped.
ASLEEP_SECONDS = 2.0

GONE: How = "machine or link gone"
HOW: dict[str, How] = {"died": "process died", "stopped": "process stopped"}


class AwakeClock:
    """A clock that stands still while this process is stopped, so that nobody gets blamed."""

    def __init__(self, now: float) -> None:
        self._last, self._slept = now, 0.0

    def read(self, now: float, *, stands_still: bool = False) -> float:
        """Return the time without stops; callers read it continually to notice them."""
        if stands_still or now - self._last > ASLEEP_SECONDS:
            self._slept += now - self._last
        self._last = now
        return now - self._slept


@dataclass
class _Entry:
    member: GroupMember
    received: float = 0.0
    heartbeat: Heartbeat | None = None
    failed: float = 0.0

    @property
    def condition(self) -> str:
        return self.heartbeat.condition if self.heartbeat else ""


class LossDetector:
    """What rank 0's sidecar knows of every rank, by the time of its `AwakeClock`."""

    def __init__(
        self,
        members: Sequence[GroupMember],
        limit: float,
        now: float,
        *,
        heard_before: bool = False,
    ) -> None:
        """Begin at `now`; if all ranks were `heard_before`, silence counts from then on."""
        self._entries = {
            member.rank: _Entry(
                member,
                now,
                Heartbeat(rank=member.rank, condition="alive") if heard_before else None,
            )
            for member in members
        }
        self._limit, self._began = limit, now
        self._lost: tuple[Loss, ...] = ()

    def receive(self, heartbeat: Heartbeat, now: float) -> None:
        """Record the heartbeat of a rank."""
        entry = self._entries.get(heartbeat.rank)
        if entry is None:
            return
        if heartbeat.condition == "failed" and entry.condition != "failed":
            entry.failed = now
        entry.heartbeat, entry.received = heartbeat, now

    def lost(self, now: float) -> tuple[Loss, ...]:
        """Return the first ranks that were lost; losses that follow from them do not count."""
        if not self._lost:
            found = [self._judge(entry, now) for entry in self._entries.values()]
            self._lost = tuple(loss for loss in found if loss is not None)
        return self._lost

    def never_heard(self, now: float) -> tuple[GroupMember, ...]:
        """Return the ranks whose first heartbeat is overdue."""
        if now - self._began <= FIRST_HEARTBEAT_SECONDS:
            return ()
        return tuple(e.member for e in self._entries.values() if e.heartbeat is None)

    def is_settled(self, now: float) -> bool:
        """Return whether no other rank needs a reply any more."""
        gone = {loss.rank for loss in self._lost if loss.how == GONE}
        others = [entry for rank, entry in self._entries.items() if rank not in {0, *gone}]
        return all(self._is_settled(entry, now) for entry in others)

    def _is_settled(self, entry: _Entry, now: float) -> bool:
        if entry.heartbeat is None:
            return True
        silent = now - entry.received > SILENT_SHARE * self._limit
        return silent or entry.heartbeat.announced or entry.condition in ("left", "failed")

    def _judge(self, entry: _Entry, now: float) -> Loss | None:
        heartbeat, rank = entry.heartbeat, entry.member.rank
        if heartbeat is None or heartbeat.condition == "left":
            return None
        if heartbeat.condition in HOW:
            return Loss(rank, HOW[heartbeat.condition], heartbeat.detail)
        if heartbeat.condition == "failed":
            waited = now - entry.failed > FAILED_ALONE_SECONDS
            alone = waited and any(e.condition == "alive" for e in self._entries.values())
            return Loss(rank, "process died", heartbeat.detail) if alone else None
        silence = now - entry.received
        if silence > SILENT_SHARE * self._limit:
            return Loss(rank, GONE, f"silent for {silence:.0f} s")
        return None
