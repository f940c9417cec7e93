"""What will be started, decided before anything is: hosts, commands, restarts.

Every machine of a run gets one agent (`cli.agent`, which is torchrun with readable errors),
with all its options spelled out.
"""

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unisono.config.settings import Settings
from unisono.errors import ConfigError

MOST_SLOTS = 1024
RENDEZVOUS_PORT = 29500
HOSTS_OPTION = "--hosts"
# A name that begins with a dash would be an option of ssh.
_HOST = re.compile(r"(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9_][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Host:
    """A machine as ssh knows it, and how many processes train there; 0 is not yet known."""

    name: str
    slots: int


def parse_hosts(text: str, slots: int) -> tuple[Host, ...]:
    """Read `a,b:2`; a machine without a number gets `slots` processes."""
    hosts = tuple(_parse(word.strip(), slots) for word in text.split(","))
    names = [host.name for host in hosts]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"{name} is named {names.count(name)} times",
                where=HOSTS_OPTION,
                fix=f"for two processes there write {name}:2",
            )
    return hosts


def _parse(word: str, slots: int) -> Host:
    name, colon, number = word.partition(":")
    if _HOST.fullmatch(name) is None:
        raise ConfigError(
            f'"{name}" is not the name of a machine',
            where=HOSTS_OPTION,
            fix="write --hosts a,b or --hosts a:2,b:2; a machine with an unusual name or an "
            "IPv6 address needs an entry with a plain name in ~/.ssh/config",
        )
    if not colon:
        return Host(name, slots)
    digits = number.isascii() and number.isdecimal()
    if not digits or not 1 <= int(number) <= MOST_SLOTS:
        raise ConfigError(
            f'"{number}" is not a number of processes',
            where=f"{HOSTS_OPTION} {word}",
            fix=f"write {name}:2 for two; ports belong in ~/.ssh/config",
        )
    return Host(name, int(number))


@dataclass(frozen=True)
class Command:
    """One command, with the variables it is given on top of the environment."""

    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    def as_shell(self) -> str:
        """Return the command as a person would type it."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return " ".join([*settings, shlex.join(self.argv)])


@dataclass(frozen=True)
class Restarts:
    """How a run continues by itself after a loss.

    It gives up after `times` starts in a row that brought the run in `run` no further; with 0,
    at once. `fewest` machines are enough to continue; 0 means all of them.
    """

    times: int = 0
    run: str = ""
    fewest: int = 0

    @property
    def supervision(self) -> tuple[str, ...]:
        """Return the options of our own agent, which precede those of torchrun."""
        return (f"--supervise={self.times}", f"--run={self.run}") if self.times else ()

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of torchrun."""
        return (f"--max-restarts={self.times}",) if self.times else ()

    def nodes(self, nodes: int) -> str:
        """Return how many machines torchrun waits for."""
        return f"{self.fewest}:{nodes}" if self.fewest else str(nodes)


NO_RESTARTS = Restarts()


@dataclass(frozen=True)
class LaunchedTraining:
    """A run to start: its config file, the overrides, and the settings they result in.

    Each machine gets `workers` processes; 0 is one for each of its GPUs. Each process runs
    `unisono VERB CONFIG … WORDS`.
    """

    config: Path
    overrides: tuple[str, ...]
    settings: Settings
    workers: int
    restarts: Restarts = NO_RESTARTS
    verb: str = "train"
    words: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of `unisono` on the command line of every process."""
        sets = [word for override in self.overrides for word in ("--set", override)]
        return [self.verb, str(self.config), *sets, *self.words]


def plan_local(
    arguments: Sequence[str], workers: int, restarts: Restarts = NO_RESTARTS
) -> Command:
    """Return the command that starts `workers` processes of `unisono ARGUMENTS` here."""
    argv = (
        *(sys.executable, "-m", "unisono.cli.agent", *restarts.supervision),
        *("--standalone", f"--nproc-per-node={workers}", *restarts.options),
        *("-m", "unisono", *arguments),
    )
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    return Command(argv, {"OMP_NUM_THREADS": str(threads)})


@dataclass(frozen=True)
class RendezvousPoint:
    """Where the agents of `nodes` machines find each other; `id` distinguishes runs."""

    address: str
    nodes: int
    id: str
    port: int = RENDEZVOUS_PORT

    @property
    def endpoint(self) -> str:
        """Return address and port as one word."""
        plain = ":" not in self.address
        return f"{self.address if plain else f'[{self.address}]'}:{self.port}"


def agent_command(
    rendezvous: RendezvousPoint,
    arguments: Sequence[str],
    *,
    workers: int,
    is_first: bool,
    python: str = sys.executable,
    restarts: Restarts = NO_RESTARTS,
    options: Sequence[str] = (),
) -> Command:
    """Return the command of one machine; together they run `unisono ARGUMENTS` as one run.

    `options` are further options of torchrun, of which the last one counts.
    """
    argv = (
        *(python, "-m", "unisono.cli.agent", *restarts.supervision),
        f"--nnodes={restarts.nodes(rendezvous.nodes)}",
        f"--nproc-per-node={workers}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={rendezvous.endpoint}",
        f"--rdzv-id={rendezvous.id}",
        # Explicit: torchrun would guess it from what the host name resolves to.
        f"--rdzv-conf=is_host={int(is_first)}",
        *restarts.options,
        *options,
        *("-m", "unisono", *arguments),
    )
    return Command(argv)
