"""What `launch` starts on a machine: torchrun, with errors a person can read.

    python -m unisono.cli.agent [--supervise=N --run=DIR] TORCHRUN_OPTIONS …

With `--supervise`, a supervisor starts the agent again whenever it fails, after ever longer
waits, until N starts in a row have brought the run in DIR no further. torchrun restarts
workers, but nothing restarts torchrun, and the machine that hosts its store is a single point
of failure. The supervisor does not import torch: what must not fail should be small.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from unisono.errors import UnisonoError
from unisono.exit_codes import INTERRUPTED, NO_RESTART, PREEMPTED, RESTARTABLE
from unisono.heartbeat.worker import SUPERVISED
from unisono.parent_process import die_with_launcher, die_with_parent, parent_variables
from unisono.printable import guard_output
from unisono.records.layout import RunDirectory
from unisono.records.status import was_preempted
from unisono.small_files import read_line
from unisono.units import duration

AGENT = (sys.executable, "-m", "unisono.cli.agent")
DEATH_FIX = (
    "look above and in the system's log for the cause (out of memory?), then start the same "
    "command again: it continues from the last checkpoint, if there is one yet"
)
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 60.0
# Where the run directory is not visible from here, lasting this long counts as progress.
LASTING_SECONDS = 300.0
STORE_CHECK_SECONDS = 2.0
STORE_UNREACHED_SECONDS = 20.0


def main() -> None:
    """Run torchrun with our arguments and end with the exit code of the workers."""
    die_with_launcher()
    guard_output()
    if any(word.startswith("--supervise=") for word in sys.argv[1:3]):
        sys.exit(supervise(sys.argv[1:]))
    die_with_parent()
    # C++ stack traces help nobody; the heartbeats and this program report what they warn of.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    _watch_store(sys.argv[1:])
    try:
        from unisono.comm.bootstrap.rendezvous import run_agent

        outcome = run_agent(sys.argv[1:], _report)
    except KeyboardInterrupt:  # before there was anything to stop
        sys.exit(INTERRUPTED)
    except UnisonoError as error:
        _report(f"error: {error}")
        sys.exit(error.exit_code)
    if outcome.death:
        _report(f"error: {outcome.death}\n  fix:   {DEATH_FIX}")
    sys.exit(outcome.exit_code)


def _report(text: str) -> None:
    with suppress(OSError):  # nobody reads it any more: no reason to end the run
        print(text, file=sys.stderr, flush=True)


def _watch_store(arguments: Sequence[str]) -> None:
    """End this agent from a thread if it would wait forever for a store it cannot reach."""
    prefix = "--rdzv-endpoint="
    named = [word.removeprefix(prefix) for word in arguments if word.startswith(prefix)]
    host, _, port = named[-1].rpartition(":") if named else ("", "", "")
    if host and port.isdecimal() and int(port):
        endpoint = host.strip("[]"), int(port)
        threading.Thread(target=_end_when_unreached, args=endpoint, daemon=True).start()


def _end_when_unreached(host: str, port: int) -> None:
    """End this process when its workers are gone and the store stays out of reach.

    While workers run, they look after themselves. An agent that reaches its store may wait for
    other machines as long as it likes.
    """
    had_workers, unreached_since = False, 0.0
    while True:
        time.sleep(STORE_CHECK_SECONDS)
        workers = bool(psutil.Process().children())
        had_workers = had_workers or workers
        if workers or not had_workers or _accepts(host, port):
            unreached_since = 0.0
        elif not unreached_since:
            unreached_since = time.monotonic()
        elif time.monotonic() - unreached_since > STORE_UNREACHED_SECONDS:
            _report(
                f"error: cannot reach torchrun's store at {host}:{port}\n"
                "  fix:   check whether that machine and its link are up"
            )
            os._exit(RESTARTABLE)


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=STORE_CHECK_SECONDS).close()
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class RestartPolicy:
    """How many starts in a row made no progress, and which step the run had reached."""

    most: int
    fruitless: int = 0
    reached: int = -1

    def after(self, reached: int, seconds: float) -> "RestartPolicy":
        """Return the policy after a start that lasted `seconds` and reached step `reached`."""
        visible = reached >= 0
        progress = reached > self.reached if visible else seconds >= LASTING_SECONDS
        return RestartPolicy(self.most, 0 if progress else self.fruitless + 1, reached)

    @property
    def is_over(self) -> bool:
        """Return whether another start would be pointless."""
        return self.fruitless >= self.most

    @property
    def wait_seconds(self) -> float:
        """Return how long to wait before the next start."""
        return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0**self.fruitless))


def step_reached(run: Path) -> int:
    """Return the step of a run's last checkpoint, or -1 if the run is not visible from here."""
    directory = RunDirectory(run)
    if not directory.config.is_file():
        return -1
    try:
        return int(read_line(directory.checkpoints / "latest").rpartition("-")[2])
    except ValueError:
        return 0


class Supervisor:
    """Starts a machine's agent again and again until it ends for good."""

    def __init__(self, run: Path, most: int, report: Callable[[str], None]) -> None:
        self._run, self._report, self._began = run, report, time.time()
        self._policy = RestartPolicy(most, reached=step_reached(run))
        self._process: subprocess.Popen[bytes] | None = None
        self._asked_to_stop = threading.Event()

    def supervise(self, arguments: Sequence[str]) -> int:
        """Run the agent with `arguments` until it ends for good; return its exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._forward)
        while True:
            began = time.monotonic()
            code = self._run_once(arguments)
            if self._asked_to_stop.is_set():
                return PREEMPTED if was_preempted(self._run, since=self._began) else code
            if code in NO_RESTART:
                return code
            reached = step_reached(self._run)
            self._policy = self._policy.after(reached, time.monotonic() - began)
            if self._policy.is_over:
                self._report(_giving_up(code, self._policy))
                return code
            wait = self._policy.wait_seconds
            self._report(f"the agent ended with {code}; starting it again in {duration(wait)}")
            if self._asked_to_stop.wait(wait):
                return code

    def _run_once(self, arguments: Sequence[str]) -> int:
        # In a process group of its own: Ctrl-C at a terminal then reaches it once, through us.
        environment = {**os.environ, **parent_variables(), SUPERVISED: "1"}
        process = subprocess.Popen([*AGENT, *arguments], env=environment, process_group=0)
        self._process = process
        code = process.wait()
        return 128 - code if code < 0 else code

    def _forward(self, number: int, _: FrameType | None) -> None:
        self._asked_to_stop.set()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def _giving_up(code: int, policy: RestartPolicy) -> str:
    times = "once" if policy.fruitless == 1 else f"{policy.fruitless} times in a row"
    where = f"step {policy.reached}" if policy.reached >= 0 else "where it was"
    return (
        f"error: the agent ended with {code}, {times} without getting further than {where}\n"
        "  fix:   see above for the cause; then the same command continues from the last "
        "checkpoint, if there is one yet"
    )


def take_options(arguments: Sequence[str]) -> tuple[int, Path, list[str]]:
    """Return how often to try, the run directory, and the arguments for torchrun."""
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
    return Supervisor(run, tries, _report).supervise(rest)


if __name__ == "__main__":
    main()
