"""Programs on other machines, started through ssh and told what to do through their input."""

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress

from unisono.launch.plan import (
    NO_RESTARTS,
    Command,
    Host,
    RendezvousPoint,
    Restarts,
    agent_command,
)
from unisono.launch.remote_wrapper import ALIVE_EVERY_SECONDS, KILL, STOP
from unisono.launch.ssh import Ssh

# How long a machine may take to carry out that everything be killed.
KILL_SECONDS = 5.0
LOST = 255  # how ssh ends if it cannot connect, or if the connection breaks


def plan_hosts(
    ssh: Ssh,
    hosts: Sequence[Host],
    meeting: RendezvousPoint,
    arguments: Sequence[str],
    *,
    python: str,
    directory: str,
    run: str,
    variables: dict[str, str],
    restarts: Restarts = NO_RESTARTS,
) -> list[Command]:
    """Return the ssh command of every host; the first one is where the agents meet."""
    commands = []
    for index, host in enumerate(hosts):
        agent = agent_command(
            meeting,
            arguments,
            workers=host.slots,
            is_first=index == 0,
            python=python,
            restarts=restarts,
        )
        wrapper = (
            *(python, "-m", "unisono.launch.remote_wrapper", f"--run={run}"),
            *(f"--meet={meeting.address}", f"--workers={host.slots}", "--", *agent.argv),
        )
        words = ssh.command(
            host.name, wrapper, directory=directory, variables={**agent.variables, **variables}
        )
        commands.append(Command(words))
    return commands


class OverSsh(subprocess.Popen[str]):
    """A program that `remote_wrapper` runs on another machine; signals are sent as orders.

    While we live, it hears from us; when we die, its input ends and it stops by itself.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # A terminal's Ctrl-C would end the connection before the other side has saved.
            process_group=0,
        )
        self._ended = threading.Event()
        threading.Thread(target=self._stay_in_touch, daemon=True).start()

    def send_signal(self, sig: int) -> None:
        """Have the program stopped; with SIGKILL it is killed with all it has started."""
        if self.poll() is not None:
            return
        self._say(KILL if sig == signal.SIGKILL else STOP)
        if sig == signal.SIGKILL:
            timer = threading.Timer(KILL_SECONDS, super().kill)
            timer.daemon = True
            timer.start()

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        code = super().poll()
        if code is not None:
            self._ended.set()
        return code

    def _stay_in_touch(self) -> None:
        while not self._ended.wait(ALIVE_EVERY_SECONDS):
            self._say("")

    def _say(self, order: str) -> None:
        # Nobody may listen any more; then poll() will tell. Past the buffer of `stdin`, which
        # would otherwise keep what it cannot get rid of.
        with suppress(OSError, ValueError):
            if self.stdin is not None:
                os.write(self.stdin.fileno(), f"{order}\n".encode())
