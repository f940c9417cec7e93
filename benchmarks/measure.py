"""What every benchmark needs: a measured process, medians, and the machine's name."""

import contextlib
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
    watcher = Watcher(process.pid)
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


class Watcher(threading.Thread):
    """Adds up the memory of a process and its descendants, now and then.

    With `shared_once`, a page that n of them share counts as 1/n in each: the sum is what
    they take from the machine. That costs more to find out, so look less often.
    """

    def __init__(
        self, pid: int, *, every: float = SAMPLE_EVERY, shared_once: bool = False
    ) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._process = psutil.Process(pid)
        self._every, self._size = every, _proportional if shared_once else _resident
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(self._every):
            self.peak = max(self.peak, sum(map(self._size, _family(self._process))))

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        self.join()


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _proportional(process: psutil.Process) -> int:
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except (OSError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def end_family(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started, at once."""
    try:
        family = _family(psutil.Process(process.pid))
    except psutil.NoSuchProcess:
        family = []
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family[1:], timeout=10)
    process.wait()


def median(values: Sequence[float]) -> float:
    """Return the middle one."""
    return statistics.median(values)


def on_the_cores_of(nodes: int, of: int = 2, first: int = 0) -> list[str]:
    """Return what comes before a command that may use the cores of `nodes` out of `of`.

    One node of a laboratory would have all cores of the machine to itself. `first` is the
    number of the first node.
    """
    cores = sorted(os.sched_getaffinity(0))
    start, end = (len(cores) * node // of for node in (first, first + nodes))
    mine = cores[start : max(start + 1, end)]
    return ["taskset", "--cpu-list", ",".join(map(str, mine))]


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
