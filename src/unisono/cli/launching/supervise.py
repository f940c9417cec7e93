"""The supervisor of a node: starts its agent again when that failed, after ever longer waits.

torchrun restarts workers, but nobody restarts torchrun, and the node that holds its store is
a single point of failure. Started as
`python -m unisono.cli.agent --supervise=N --run=DIR …`.
No torch here: what must not fail should be small.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from unisono.exit_codes import NO_RESTART, PREEMPTED
from unisono.heartbeat.settings import SUPERVISED
from unisono.launch.slurm import was_preempted
from unisono.records.layout import RunDirectory
from unisono.units import duration

AGENT = (sys.executable, "-m", "unisono.cli.agent")
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 60.0
# Where the steps of the run cannot be seen from here: as long as this is progress as well.
LASTING_SECONDS = 300.0


@dataclass(frozen=True)
class RestartPolicy:
    """How many starts have brought nothing so far, and what the run had reached."""

    most: int
    fruitless: int = 0
    reached: int = -1

    def after(self, reached: int, seconds: float) -> "RestartPolicy":
        """Return the patience left after a start that took so long and got so far."""
        visible = reached >= 0
        progress = reached > self.reached if visible else seconds >= LASTING_SECONDS
        return RestartPolicy(self.most, 0 if progress else self.fruitless + 1, reached)

    @property
    def is_over(self) -> bool:
        """Return whether starting again is pointless."""
        return self.fruitless >= self.most

    @property
    def wait_seconds(self) -> float:
        """Return how long to wait before the next start."""
        return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0**self.fruitless))


def step_reached(run: Path) -> int:
    """Return the step of the last checkpoint of a run, or -1 if it cannot be seen from here."""
    directory = RunDirectory(run)
    if not directory.config.is_file():
        return -1
    try:
        name = (directory.checkpoints / "latest").read_text("utf-8").strip()
        return int(name.rpartition("-")[2])
    except (OSError, ValueError):
        return 0


class Supervisor:
    """Runs a node's agent again and again until it ends for good."""

    def __init__(self, run: Path, most: int, say: Callable[[str], None]) -> None:
        self._run, self._say, self._began = run, say, time.time()
        self._patience = RestartPolicy(most, reached=step_reached(run))
        self._process: subprocess.Popen[bytes] | None = None
        self._asked_to_stop = threading.Event()

    def supervise(self, arguments: Sequence[str]) -> int:
        """Run the agent with `arguments` until it ends for good; return its exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._pass_on)
        while True:
            began = time.monotonic()
            code = self._run_once(arguments)
            if self._asked_to_stop.is_set():
                return self._code_when_stopped(code)
            if code in NO_RESTART:
                return code
            reached = step_reached(self._run)
            self._patience = self._patience.after(reached, time.monotonic() - began)
            if self._patience.is_over:
                self._say(_gives_up(code, self._patience))
                return code
            wait = self._patience.wait_seconds
            self._say(f"the agent ended with {code}; it is started again in {duration(wait)}")
            if self._asked_to_stop.wait(wait):
                return code

    def _run_once(self, arguments: Sequence[str]) -> int:
        # In a group of its own: a terminal's Ctrl-C then reaches it once, through us.
        environment = {**os.environ, SUPERVISED: "1"}
        process = subprocess.Popen([*AGENT, *arguments], env=environment, process_group=0)
        self._process = process
        code = process.wait()
        return 128 - code if code < 0 else code

    def _code_when_stopped(self, code: int) -> int:
        return PREEMPTED if was_preempted(self._run, since=self._began) else code

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        self._asked_to_stop.set()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def _gives_up(code: int, patience: RestartPolicy) -> str:
    times = "once" if patience.fruitless == 1 else f"{patience.fruitless} times in a row"
    where = f"step {patience.reached}" if patience.reached >= 0 else "where it was"
    return (
        f"error: the agent ended with {code}, {times} without getting further than {where}\n"
        "  fix:   see above why; then the same command continues from the last checkpoint, "
        "if there is one yet"
    )


def take_options(arguments: Sequence[str]) -> tuple[int, Path, list[str]]:
    """Return how often to try, the run directory, and what is for torchrun."""
    tries, run, rest = 0, Path(), list(arguments)
    while rest and rest[0].startswith(("--supervise=", "--run=")):
        name, _, value = rest.pop(0).partition("=")
        if name == "--run":
            run = Path(value)
        elif value.isdecimal() and int(value):
            tries = int(value)
        else:
            raise SystemExit(f"error: --supervise={value}: give how often to try, such as 3")
    return tries, run, rest


def supervise(arguments: Sequence[str]) -> int:
    """Supervise an agent as `arguments` say; return the exit code to end with."""
    tries, run, rest = take_options(arguments)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    return Supervisor(run, tries, say).supervise(rest)
