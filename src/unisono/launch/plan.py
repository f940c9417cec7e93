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
class Training:
    """A run to be started: its config with what was changed in it, and what came of them.

    `workers` is how many processes a machine gets.
    """

    config: Path
    overrides: tuple[str, ...]
    settings: Settings
    workers: int

    @property
    def arguments(self) -> list[str]:
        """Return what follows `unisono` on the command line of every process."""
        sets = [word for override in self.overrides for word in ("--set", override)]
        return ["train", str(self.config), *sets]
