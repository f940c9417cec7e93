"""One program on each of several machines, with all output read in one place."""

import queue
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Protocol

from unisono.exit_codes import ROOT_CAUSES

# How long the other machines may take to notice that one has failed, and then to stop after
# SIGTERM: as long as torchrun gives its workers.
GRACE_SECONDS = 30.0
OUTPUT_POLL_SECONDS = 0.2
# A process that the program left behind may still hold its output open.
LAST_OUTPUT_SECONDS = 3.0
LONGEST_LINE = 65536
# Lines that wait to be shown; a machine that prints more waits, too.
MOST_LINES = 4096


class RemoteProgram(Protocol):
    """A program on a machine; a `Popen` of text is one."""

    stdout: IO[str] | None
    stderr: IO[str] | None

    def poll(self) -> int | None:
        """Return its exit code, negative if a signal ended it, or None while it runs."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal; do nothing if it has ended."""


@dataclass(frozen=True)
class OutputLine:
    """A line that a machine printed, without its end."""

    node: int
    text: str
    is_error: bool = False


@dataclass(frozen=True)
class ProgramEnded:
    """A machine's program has ended, with this exit code."""

    node: int
    exit_code: int


class FanOut:
    """Programs that run on several machines, until the last has ended.

    If one fails, the others get a while to notice, then SIGTERM, then SIGKILL, and `exit_code`
    is that of the first to fail, or of one that knows the cause. Programs that `may_lose` a
    machine continue without it, and `exit_code` is that of the last to end. `exit_codes` are
    those of all that have ended.
    """

    def __init__(self, jobs: Mapping[int, RemoteProgram], *, may_lose: bool = False) -> None:
        self._may_lose = may_lose
        self._lines: queue.Queue[OutputLine] = queue.Queue(MOST_LINES)
        self._running = dict(jobs)
        self._readers: list[threading.Thread] = []
        self._signals = 0
        self._deadline = float("inf")
        self.exit_code = 0
        self.exit_codes: dict[int, int] = {}
        for node, job in jobs.items():
            self._read(node, job.stdout, is_error=False)
            self._read(node, job.stderr, is_error=True)

    def events(self) -> Iterator[OutputLine | ProgramEnded]:
        """Yield every line of output and every end of a program, until all have ended."""
        while self._running:
            yield from self._output(wait=True)
            yield from self._ended()
            self._stop_late_ones()
        deadline = time.monotonic() + LAST_OUTPUT_SECONDS
        while time.monotonic() < deadline and any(one.is_alive() for one in self._readers):
            yield from self._output(wait=True)
        yield from self._output(wait=False)

    def signal(self, number: int) -> None:
        """Forward a signal to every machine; the second one kills."""
        self._signals += 1
        for job in self._running.values():
            job.send_signal(number if self._signals == 1 else signal.SIGKILL)

    def _read(self, node: int, stream: IO[str] | None, *, is_error: bool) -> None:
        def read_lines() -> None:
            with suppress(ValueError):  # closed by whoever started the program
                while stream and (text := stream.readline(LONGEST_LINE)):
                    self._lines.put(OutputLine(node, text.rstrip("\n"), is_error))

        self._readers.append(threading.Thread(target=read_lines, daemon=True))
        self._readers[-1].start()

    def _output(self, *, wait: bool) -> Iterator[OutputLine]:
        try:
            if wait:
                yield self._lines.get(timeout=OUTPUT_POLL_SECONDS)
            while True:
                yield self._lines.get_nowait()
        except queue.Empty:
            return

    def _ended(self) -> Iterator[ProgramEnded]:
        for node, job in list(self._running.items()):
            code = job.poll()
            if code is None:
                continue
            del self._running[node]
            code = 128 - code if code < 0 else code
            self.exit_codes[node] = code
            if self._may_lose:
                self.exit_code = code
            elif code:
                self.exit_code = _cause(self.exit_code, code)
                self._deadline = min(self._deadline, time.monotonic() + GRACE_SECONDS)
            yield ProgramEnded(node, code)

    def _stop_late_ones(self) -> None:
        if time.monotonic() > self._deadline:
            self._deadline = time.monotonic() + GRACE_SECONDS
            self.signal(signal.SIGTERM)


def _cause(first: int, code: int) -> int:
    return code if code in ROOT_CAUSES and first not in ROOT_CAUSES else first or code
