"""The sidecar: looks at its worker, sends heartbeats, and acts when a rank is lost."""

import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unisono.heartbeat.announce import Announcer, loss_text
from unisono.heartbeat.client import HeartbeatClient
from unisono.heartbeat.loss_detector import BEAT_SECONDS, FIRST_HEARTBEAT_SECONDS, STOPPED_SHARE
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
from unisono.heartbeat.server import HeartbeatServer

POLL_SECONDS = 0.25
# How long a worker may record where it was before its sidecar kills it.
RECORD_SECONDS = 3.0
# Fields of /proc/PID/stat after the name in brackets.
_STATE, _BEGAN, _EXIT_STATUS = 0, 19, 49
_STOPPED, _ENDED = ("T", "t"), ("Z", "X", "x")


@dataclass(frozen=True)
class ProcessState:
    """A process as the kernel shows it: `state` is the kernel's letter, "" if it has ended.

    `end` says how it ended, as far as that is still known.
    """

    state: str = ""
    began: str = ""
    end: str = ""

    @property
    def is_gone(self) -> bool:
        """Return whether the process has ended."""
        return not self.state

    @property
    def is_stopped(self) -> bool:
        """Return whether SIGSTOP or a debugger holds the process."""
        return self.state in _STOPPED


def process_state(pid: int) -> ProcessState:
    """Return the state of process `pid`."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return ProcessState()
    fields = text.rpartition(")")[2].split()
    if fields[_STATE] in _ENDED:
        return ProcessState(end=describe_end(int(fields[_EXIT_STATUS])))
    return ProcessState(fields[_STATE], fields[_BEGAN])


def describe_end(status: int) -> str:
    """Return in words how a process ended, from its wait status."""
    if not os.WIFSIGNALED(status):
        return f"ended with exit code {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    with suppress(ValueError):
        return f"killed by {signal.Signals(number).name}"
    return f"killed by signal {number}"


class WorkerProcess:
    """A process that is looked at repeatedly, and never confused with a later one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._began = process_state(pid).began
        self._end = ""
        try:
            # Readable at the moment of death, while the kernel still knows how it ended.
            self.pidfd: int | None = os.pidfd_open(pid)
        except OSError:
            self.pidfd = None

    def look(self) -> ProcessState:
        """Return the current state of the process."""
        found = process_state(self.pid)
        if found.state and found.began != self._began:
            found = ProcessState()  # the pid now belongs to another process
        self._end = found.end or self._end
        return ProcessState(found.state, found.began, self._end)

    def kill(self) -> None:
        """Kill the process, if it still runs."""
        if not self.look().is_gone:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the pidfd, which stays readable once the process is dead."""
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


class Sidecar:
    """Runs from the start of its worker until all ranks that can be told know how it ended."""

    def __init__(self, config: SidecarConfig, from_worker: int, to_worker: int) -> None:
        """Read the worker's notes from one file descriptor, and write verdicts to the other."""
        self._config, self._from_worker, self._to_worker = config, from_worker, to_worker
        self._worker_writes = True
        self._worker = WorkerProcess(config.worker.pid)
        self._agent = WorkerProcess(config.agent) if config.agent > 1 else None
        self._announcer = Announcer(config)
        self._heartbeats: HeartbeatServer | HeartbeatClient = (
            HeartbeatServer(config, self._announcer.warn)
            if config.rank == 0
            else HeartbeatClient(config)
        )
        self._condition: Condition = "alive"
        self._detail, self._buffer, self._note = "", b"", Note()
        self._stopped_since, self._next_beat = 0.0, 0.0
        self._ends_at, self._kills_at = float("inf"), float("inf")
        self._announced = self._warned = False

    def run(self) -> None:
        """Look after the worker until there is nothing left to do."""
        while not self._is_over():
            self._wait()
            now = time.monotonic()
            self._look(now)
            self._beat(now)
            self._warn()
            lost = () if self._has_left else self._heartbeats.lost()
            if lost and not self._announced:
                self._announce(lost, now)
            if now >= self._kills_at:
                self._worker.kill()

    @property
    def _has_left(self) -> bool:
        return self._condition in ("left", "failed")

    @property
    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            rank=self._config.rank,
            condition=self._condition,
            detail=self._detail,
            announced=self._announced,
        )

    def _wait(self) -> None:
        pidfd = self._worker.pidfd
        sources = [self._from_worker] * self._worker_writes + ([pidfd] if pidfd else [])
        ready, _, _ = select.select(sources, [], [], POLL_SECONDS)
        if self._from_worker in ready:
            self._read_notes()

    def _read_notes(self) -> None:
        data = os.read(self._from_worker, LONGEST_LINE)
        self._worker_writes = bool(data)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            note = from_line(line, Note)
            if note is not None:
                self._take(note)

    def _take(self, note: Note) -> None:
        self._note = note
        if note.leaves and self._condition == "alive":
            self._change("left" if note.leaves == "done" else "failed", note.message)
            self._announcer.release_terminal()

    def _look(self, now: float) -> None:
        worker = self._worker.look()
        if worker.is_gone:
            self._worker.close()
            if self._condition in ("alive", "stopped"):
                self._change("died", self._how_it_ended(worker))
            self._ends_at = min(self._ends_at, now + self._config.limit)
        elif not worker.is_stopped:
            self._stopped_since = 0.0
        elif not self._stopped_since:
            self._stopped_since = now
        elif self._is_stopped_too_long(now):
            self._change("stopped", f"for {now - self._stopped_since:.0f} s")

    def _is_stopped_too_long(self, now: float) -> bool:
        longest = STOPPED_SHARE * self._config.limit
        return self._condition == "alive" and now - self._stopped_since >= longest

    def _how_it_ended(self, worker: ProcessState) -> str:
        if self._note.message:
            return self._note.message
        if self._agent is not None and self._agent.look().is_gone:
            return "together with its agent"
        return worker.end or "cause unknown"

    def _change(self, condition: Condition, detail: str) -> None:
        self._condition, self._detail = condition, detail
        self._next_beat = 0.0

    def _beat(self, now: float) -> None:
        if now >= self._next_beat:
            self._heartbeats.beat(self._heartbeat)
            self._next_beat = now + BEAT_SECONDS

    def _warn(self) -> None:
        """Warn once about ranks from which no heartbeat has ever got through."""
        if self._warned or self._condition != "alive":
            return
        if isinstance(self._heartbeats, HeartbeatServer):
            silent = self._heartbeats.never_heard()
        else:
            late = self._heartbeats.seconds_without_any_reply() > FIRST_HEARTBEAT_SECONDS
            silent = (self._config.worker,) if late else ()
        if silent:
            self._warned = True
            self._announcer.warn_without_heartbeat(silent)

    def _announce(self, lost: tuple[Loss, ...], now: float) -> None:
        self._announced = True
        self._next_beat = 0.0
        self._announcer.announce(lost, self._note.step)
        self._ends_at = min(self._ends_at, now + self._config.limit)
        text = "; ".join(loss_text(self._config.members[loss.rank], loss) for loss in lost)
        with suppress(OSError):  # the worker is dead
            os.write(self._to_worker, to_line(LossVerdict(message=text)))
        is_stopped = self._worker.look().is_stopped
        self._kills_at = now + (0.0 if is_stopped else RECORD_SECONDS)

    def _is_over(self) -> bool:
        if time.monotonic() >= self._ends_at:
            if self._announced:
                self._worker.kill()
            return True
        if self._condition in ("alive", "stopped"):
            return False
        ended = self._has_left or (self._announced and self._worker.look().is_gone)
        return ended and self._heartbeats.is_settled(self._heartbeat)
