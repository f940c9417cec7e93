"""What will be started, before anything is."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unisono.config.settings import Settings


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
    """How a run goes on by itself after a loss.

    `times` starts in a row may bring the run in `run` no further; 0 is to give up at once.
    `fewest` machines are enough to go on with; 0 is all of them.
    """

    times: int = 0
    run: str = ""
    fewest: int = 0

    @property
    def supervision(self) -> tuple[str, ...]:
        """Return the options of our own agent, which come before those of torchrun."""
        return (f"--supervise={self.times}", f"--run={self.run}") if self.times else ()

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of torchrun."""
        return (f"--max-restarts={self.times}",) if self.times else ()

    def nodes(self, nodes: int) -> str:
        """Return how many machines torchrun is to wait for."""
        return f"{self.fewest}:{nodes}" if self.fewest else str(nodes)


NO_RESTARTS = Restarts()


@dataclass(frozen=True)
class Training:
    """A run to be started: its config with what was changed in it, and what came of them.

    `workers` is how many processes a machine gets; `verb` and `words` are what each of them
    is to do, if it is not to train.
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
        """Return what follows `unisono` on the command line of every process."""
        sets = [word for override in self.overrides for word in ("--set", override)]
        return [self.verb, str(self.config), *sets, *self.words]
