"""One process of this machine, as the kernel shows it: running, stopped or gone."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Places in /proc/PID/stat after the name in brackets.
STATE, BEGAN, EXIT_STATUS = 0, 19, 49
STOPPED, GONE = ("T", "t"), ("Z", "X", "x")


@dataclass(frozen=True)
class Sight:
    """What was seen of a process: `state` is the kernel's letter, "" if it is gone.

    `end` says how it ended, as far as that can still be known.
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
        """Return whether the process is held, by SIGSTOP or a debugger."""
        return self.state in STOPPED


def look_at(pid: int) -> Sight:
    """Return what is to be seen of process `pid`."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return Sight()
    fields = text.rpartition(")")[2].split()
    if fields[STATE] in GONE:
        return Sight(end=describe_end(int(fields[EXIT_STATUS])))
    return Sight(fields[STATE], fields[BEGAN])


def describe_end(status: int) -> str:
    """Return how a process ended, from what `wait` would say of it."""
    if os.WIFSIGNALED(status):
        return f"killed by {signal_name(os.WTERMSIG(status))}"
    return f"ended with exit code {os.WEXITSTATUS(status)}"


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


class WorkerProcess:
    """A process that is looked at again and again, and never mistaken for a later one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._began = look_at(pid).began
        self._end = ""
        try:
            # Readable at the moment of death, while how it ended can still be read.
            self.bell: int | None = os.pidfd_open(pid)
        except OSError:
            self.bell = None

    def look(self) -> Sight:
        """Return what is to be seen of the process now."""
        sight = look_at(self.pid)
        if sight.state and sight.began != self._began:
            sight = Sight()  # another one has got its number
        self._end = sight.end or self._end
        return Sight(sight.state, sight.began, self._end)

    def kill(self) -> None:
        """End the process, if it is still there."""
        if not self.look().is_gone:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def unhook(self) -> None:
        """Ring no more: its death is known."""
        if self.bell is not None:
            os.close(self.bell)
            self.bell = None
