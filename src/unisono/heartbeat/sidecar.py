"""The watchman: looks at its worker, hears of the others, and speaks when one is lost."""

import os
import select
import time
from contextlib import suppress

from unisono.heartbeat.announce import Announcer, sentence
from unisono.heartbeat.client import HeartbeatClient
from unisono.heartbeat.loss_detector import BEAT_SECONDS, FIRST_WORD_SECONDS, STOPPED_SHARE
from unisono.heartbeat.messages import (
    LONGEST_LINE,
    Condition,
    Heartbeat,
    Loss,
    LossVerdict,
    Note,
    SidecarConfig,
    from_line,
    to_line,
)
from unisono.heartbeat.process import Sight, WorkerProcess
from unisono.heartbeat.server import HeartbeatServer

LOOK_SECONDS = 0.25
# What a worker gets to write down where it stood before it is killed.
LAST_ACTS_SECONDS = 3.0


class Sidecar:
    """Runs from the start of its worker until all who can be told know how it ended."""

    def __init__(self, orders: SidecarConfig, ears: int, mouth: int) -> None:
        """Watch by `orders`; the worker's notes come from `ears`, `mouth` reaches it."""
        self._orders, self._ears, self._mouth = orders, ears, mouth
        self._hears = True
        self._worker = WorkerProcess(orders.me.pid)
        self._agent = WorkerProcess(orders.agent) if orders.agent > 1 else None
        self._tower: HeartbeatServer | HeartbeatClient = (
            HeartbeatServer(orders) if orders.rank == 0 else HeartbeatClient(orders)
        )
        self._speaker = Announcer(orders)
        self._condition: Condition = "alive"
        self._detail, self._buffer, self._note = "", b"", Note()
        self._stopped_since, self._next_beat = 0.0, 0.0
        self._ends_at, self._kills_at = float("inf"), float("inf")
        self._told = self._warned = False

    def run(self) -> None:
        """Watch until there is nothing left to do."""
        while not self._is_over():
            self._wait()
            now = time.monotonic()
            self._look(now)
            self._beat(now)
            self._warn()
            lost = () if self._has_left else self._tower.lost()
            if lost and not self._told:
                self._announce(lost, now)
            if now >= self._kills_at:
                self._worker.kill()

    @property
    def _has_left(self) -> bool:
        return self._condition in ("left", "failed")

    @property
    def _report(self) -> Heartbeat:
        return Heartbeat(
            token=self._orders.token,
            rank=self._orders.rank,
            condition=self._condition,
            detail=self._detail,
            told=self._told,
        )

    def _wait(self) -> None:
        bell = self._worker.bell
        sources = [*([self._ears] if self._hears else []), *([bell] if bell else [])]
        ready, _, _ = select.select(sources, [], [], LOOK_SECONDS)
        if self._ears in ready:
            self._listen()

    def _listen(self) -> None:
        data = os.read(self._ears, LONGEST_LINE)
        self._hears = bool(data)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._take(from_line(line, Note))

    def _take(self, note: Note | None) -> None:
        if note is None:
            return
        self._note = note
        if note.leaves and self._condition == "alive":
            self._change("left" if note.leaves == "done" else "failed", note.words)
            self._speaker.fall_silent()

    def _look(self, now: float) -> None:
        sight = self._worker.look()
        if sight.is_gone:
            self._worker.unhook()
            if self._condition in ("alive", "stopped"):
                self._change("died", self._how_it_ended(sight))
            self._ends_at = min(self._ends_at, now + self._orders.limit)
        elif not sight.is_stopped:
            self._stopped_since = 0.0
        elif not self._stopped_since:
            self._stopped_since = now
        elif self._has_stood_still(now):
            self._change("stopped", f"for {now - self._stopped_since:.0f} s")

    def _has_stood_still(self, now: float) -> bool:
        longest = STOPPED_SHARE * self._orders.limit
        return self._condition == "alive" and now - self._stopped_since >= longest

    def _how_it_ended(self, sight: Sight) -> str:
        if self._note.words:
            return self._note.words
        if self._agent is not None and self._agent.look().is_gone:
            return "together with its agent"
        return sight.end or "how is not known"

    def _change(self, condition: Condition, detail: str) -> None:
        self._condition, self._detail = condition, detail
        self._next_beat = 0.0

    def _beat(self, now: float) -> None:
        if now >= self._next_beat:
            self._tower.beat(self._report)
            self._next_beat = now + BEAT_SECONDS

    def _warn(self) -> None:
        """Say once whom we cannot watch because no call has ever got through."""
        if self._warned or self._condition != "alive":
            return
        if isinstance(self._tower, HeartbeatServer):
            silent = self._tower.unheard()
        else:
            late = self._tower.silent_from_the_start() > FIRST_WORD_SECONDS
            silent = self._orders.members[:1] if late else ()
        if silent:
            self._warned = True
            self._speaker.say_unwatched(silent)

    def _announce(self, lost: tuple[Loss, ...], now: float) -> None:
        self._told = True
        self._next_beat = 0.0
        self._speaker.announce(lost, self._note.step)
        self._ends_at = min(self._ends_at, now + self._orders.limit)
        words = "; ".join(sentence(self._orders.members[loss.rank], loss) for loss in lost)
        with suppress(OSError):  # nobody there to hear it
            os.write(self._mouth, to_line(LossVerdict(words=words)))
        stands_still = self._worker.look().is_stopped
        self._kills_at = now + (0.0 if stands_still else LAST_ACTS_SECONDS)

    def _is_over(self) -> bool:
        if time.monotonic() >= self._ends_at:
            if self._told:
                self._worker.kill()
            return True
        if self._condition in ("alive", "stopped"):
            return False
        ended = self._has_left or (self._told and self._worker.look().is_gone)
        return ended and self._tower.is_settled(self._report)
