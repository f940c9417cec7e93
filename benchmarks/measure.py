"""What every benchmark needs: a measured process, medians, and the machine's name."""

import os
import platform
import statistics
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_EVERY = 0.05


@dataclass(frozen=True)
class Measured:
    """How long a command and its children took, and the most memory they had together.

    Pages that processes share are counted once for each of them, so the sum is an upper
    bound.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def run(command: Sequence[str | Path], *, stdout: Path | None = None) -> Measured:
    """Run a command to its end; raise if it fails. With `stdout`, its output goes there."""
    before, began = os.times(), time.perf_counter()
    out = stdout.open("wb") if stdout else subprocess.PIPE
    process = subprocess.Popen([str(part) for part in command], stdout=out)
    watcher = _Watcher(process.pid)
    watcher.start()
    text = process.communicate()[0]
    seconds, after = time.perf_counter() - began, os.times()
    watcher.stop()
    if process.returncode:
        raise SystemExit(f"{command[0]} failed with exit code {process.returncode}")
    used = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    return Measured(seconds, used, watcher.peak, text.decode() if text else "")


class _Watcher(threading.Thread):
    """Adds up the resident memory of a process and its descendants, now and then."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._process = psutil.Process(pid)
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(SAMPLE_EVERY):
            self.peak = max(self.peak, sum(map(_resident, self._family())))

    def stop(self) -> None:
        self._done.set()
        self.join()

    def _family(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def median(values: Sequence[float]) -> float:
    """Return the middle one."""
    return statistics.median(values)


def machine() -> str:
    """Say where this is running."""
    model = next(
        (line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")),
        platform.machine(),
    )
    cores = len(os.sched_getaffinity(0))
    memory = psutil.virtual_memory().total / 2**30
    return f"{model}, {cores} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []
