"""A program that runs on a machine of the laboratory."""

import os
import signal
import subprocess
from typing import IO, Any

import psutil


class Job(subprocess.Popen[str]):
    """Used like any other `Popen` of text; signals reach the program on the machine.

    The process that was started here only carries the program into the machine, waits for
    it and ends as it does; `program` is the program itself.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        environment: dict[str, str],
        *,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        at_terminal: bool = False,
    ) -> None:
        self._at_terminal = at_terminal
        super().__init__(
            argv,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            process_group=None if at_terminal else 0,
        )

    @property
    def program(self) -> int | None:
        """Return the number of the program's process on the host, or None if there is none."""
        try:
            children = psutil.Process(self.pid).children()
        except psutil.NoSuchProcess:
            return None
        return children[0].pid if children else None

    def send_signal(self, sig: int) -> None:
        """Send a signal to the program; SIGKILL also to the processes of its group."""
        if self.poll() is not None:
            return
        if sig == signal.SIGKILL and not self._at_terminal:
            os.killpg(self.pid, sig)
            return
        try:
            os.kill(self.program or self.pid, sig)
        except ProcessLookupError:  # it ended by itself a moment ago
            self.poll()

    def pass_on(self, sig: int) -> None:
        """Send a signal that this process got, unless the terminal has sent it to all."""
        if not (self._at_terminal and sig == signal.SIGINT):
            self.send_signal(sig)

    def close(self) -> None:
        """Wait for the program, whose machine is gone, and close what it was read from."""
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
