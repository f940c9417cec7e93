"""The user's own `ssh` program: keys, ports, users and host keys are as it is set up."""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unisono.errors import ConfigError

CONNECT_SECONDS = 15
# A machine that has answered nothing for this long is gone.
ALIVE_EVERY_SECONDS, ALIVE_MISSED = 10, 3


@dataclass(frozen=True)
class Ssh:
    """How to reach machines. `config` is a file for `ssh -F`, "" for the usual one."""

    config: str = ""
    options: tuple[str, ...] = field(
        default=(
            # No terminal there, and nothing of ours is lent to the other side.
            *("-T", "-a", "-x"),
            # Nobody is asked for a password in the middle of a start.
            *("-o", "BatchMode=yes"),
            *("-o", "ClearAllForwardings=yes"),
            *("-o", f"ConnectTimeout={CONNECT_SECONDS}"),
            *("-o", f"ServerAliveInterval={ALIVE_EVERY_SECONDS}"),
            *("-o", f"ServerAliveCountMax={ALIVE_MISSED}"),
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

        What ssh sends is a line for the shell there, so every word of it is quoted.
        """
        settings = [f"{name}={value}" for name, value in (variables or {}).items()]
        words = [*(("env", *settings) if settings else ()), *argv]
        change = f"cd {shlex.quote(directory)} && " if directory else ""
        return (*self._ssh(), *self.options, "--", host, f"{change}exec {shlex.join(words)}")

    def address_of(self, host: str) -> str:
        """Return the address or name that ssh connects to for `host`; connects to nothing."""
        try:
            done = subprocess.run(
                [*self._ssh(), "-G", "--", host], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise ConfigError(
                f"the program ssh cannot be started: {error.strerror}",
                where="--hosts",
                fix="install it: apt-get install openssh-client",
            ) from error
        if done.returncode:
            raise ConfigError(
                f"ssh refuses its settings: {' '.join(done.stderr.split())}",
                where=self.config or "~/.ssh/config",
                fix=f"make `ssh {host} true` work first",
            )
        lines = (line.partition(" ") for line in done.stdout.splitlines())
        found = next((value for key, _, value in lines if key == "hostname"), "")
        return found or host.rpartition("@")[2]

    def _ssh(self) -> tuple[str, ...]:
        return ("ssh", "-F", self.config) if self.config else ("ssh",)
