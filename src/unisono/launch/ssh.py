"""The user's own `ssh` program: its keys, ports, users and host keys apply as configured."""

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from unisono.errors import ConfigError
from unisono.launch.places import Place
from unisono.launch.plan import (
    NO_RESTARTS,
    Command,
    Host,
    RendezvousPoint,
    Restarts,
    agent_command,
)
from unisono.launch.remote_wrapper import KEEP_ALIVE_SECONDS, KILL, STOP
from unisono.printable import refuse_control

SSH_CONNECT_SECONDS = 15
# ssh gives a machine up that has not answered for this long.
SSH_ALIVE_SECONDS, SSH_ALIVE_MISSED = 10, 3
SSH_FAILED = 255  # the exit code of ssh if it cannot connect, or if the connection breaks
# How long a machine may take to kill everything before we kill ssh itself.
KILL_SECONDS = 5.0
NO_PYTHON = 127
FIND_PYTHON = (
    'source=$1; shift; for python in "$@"; do command -v "$python" >/dev/null 2>&1 && '
    f'exec "$python" -I -c "$source"; done; exit {NO_PYTHON}'
)


@dataclass(frozen=True)
class Ssh:
    """How to reach machines. `config` is a file for `ssh -F`, "" for the usual one."""

    config: str = ""
    options: tuple[str, ...] = field(
        default=(
            # No terminal there, and no agent or display forwarded.
            *("-T", "-a", "-x"),
            # Fail instead of asking for a password in the middle of a start.
            *("-o", "BatchMode=yes"),
            *("-o", "ClearAllForwardings=yes"),
            *("-o", f"ConnectTimeout={SSH_CONNECT_SECONDS}"),
            *("-o", f"ServerAliveInterval={SSH_ALIVE_SECONDS}"),
            *("-o", f"ServerAliveCountMax={SSH_ALIVE_MISSED}"),
        )
    )

    def command(
        self,
        host: str,
        argv: Sequence[str],
        *,
        directory: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> tuple[str, ...]:
        """Return the command that runs `argv` in a directory of `host`.

        ssh sends one line to the shell there, so every word of it is quoted.
        """
        settings = [f"{name}={value}" for name, value in (variables or {}).items()]
        words = [*(("env", *settings) if settings else ()), *argv]
        refuse_control((host, directory, *words), where="the command for ssh")
        change = f"cd {shlex.quote(directory)} && " if directory else ""
        return (*self._ssh(), *self.options, "--", host, f"{change}exec {shlex.join(words)}")

    def program(self, host: str, pythons: Sequence[str], source: str) -> tuple[str, ...]:
        """Return the command that runs a program on `host`, by the first of `pythons` there.

        `source` is its text; its standard input is free for other things.
        """
        refuse_control((host, *pythons), where="the command for ssh")
        words = ("sh", "-c", FIND_PYTHON, "sh", source, *pythons)
        return (*self._ssh(), *self.options, "--", host, f"exec {shlex.join(words)}")

    def address_of(self, host: str) -> str:
        """Return the address or name that ssh would connect to for `host`."""
        try:
            done = subprocess.run(
                [*self._ssh(), "-G", "--", host], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise ConfigError(
                f"cannot start the program ssh: {error.strerror}",
                where="--hosts",
                fix="install it: apt-get install openssh-client",
            ) from error
        if done.returncode:
            raise ConfigError(
                f"ssh rejects its settings: {' '.join(done.stderr.split())}",
                where=self.config or "~/.ssh/config",
                fix=f"make `ssh {host} true` work first",
            )
        lines = (line.partition(" ") for line in done.stdout.splitlines())
        found = next((value for key, _, value in lines if key == "hostname"), "")
        return found or host.rpartition("@")[2]

    def _ssh(self) -> tuple[str, ...]:
        return ("ssh", "-F", self.config) if self.config else ("ssh",)


def plan_hosts(
    ssh: Ssh,
    hosts: Sequence[Host],
    rendezvous: RendezvousPoint,
    arguments: Sequence[str],
    *,
    places: Sequence[Place],
    run: str,
    variables: Mapping[str, str],
    restarts: Restarts = NO_RESTARTS,
    admitted: Sequence[str] = (),
    detached: bool = False,
) -> list[Command]:
    """Return the ssh command of every host, in its place; the agents meet on the first one.

    If there are `admitted` addresses, a firewall keeps all others from the ports of the run.
    """
    commands = []
    firewall = [f"--firewall={','.join([str(rendezvous.port), *admitted])}"] if admitted else []
    for index, (host, place) in enumerate(zip(hosts, places, strict=True)):
        agent = agent_command(
            rendezvous,
            arguments,
            workers=host.slots,
            is_first=index == 0,
            python=place.python,
            restarts=restarts,
        )
        wrapper = (
            *(place.python, "-m", "unisono.launch.remote_wrapper", f"--run={run}"),
            *(f"--rendezvous={rendezvous.address}", f"--workers={host.slots}", "--secret"),
            *(*firewall, *detached_as(index, detached), "--", *agent.argv),
        )
        words = ssh.command(
            host.name,
            wrapper,
            directory=place.directory,
            variables={**agent.variables, **variables},
        )
        commands.append(Command(words))
    return commands


def detached_as(node: int, detached: bool) -> tuple[str, ...]:
    """Return the option of the wrapper of a node that outlives its launcher."""
    return (f"--detached={node}",) if detached else ()


class SshProcess(subprocess.Popen[str]):
    """A program that `remote_wrapper` runs on another machine; signals become its commands.

    A line every few seconds tells the wrapper that we are alive. When we die, its input ends,
    and it stops the program.
    """

    def __init__(self, argv: Sequence[str], secret: str = "") -> None:
        super().__init__(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Ctrl-C at a terminal would end the connection before the other side has saved.
            process_group=0,
        )
        self._ended = threading.Event()
        if secret:
            self._send(secret)
        threading.Thread(target=self._keep_alive, daemon=True).start()

    def send_signal(self, sig: int) -> None:
        """Stop the program; with SIGKILL, kill it and everything it has started."""
        if self.poll() is not None:
            return
        self._send(KILL if sig == signal.SIGKILL else STOP)
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

    def _keep_alive(self) -> None:
        while not self._ended.wait(KEEP_ALIVE_SECONDS):
            self._send("")

    def _send(self, command: str) -> None:
        # The other end may be gone; then poll() will tell. Bypass the buffer of `stdin`, which
        # would otherwise keep what it cannot send.
        with suppress(OSError, ValueError):
            if self.stdin is not None:
                os.write(self.stdin.fileno(), f"{command}\n".encode())
