"""What will be started, before anything is."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Command:
    """One command, with the variables it is given on top of the environment."""

    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    def as_shell(self) -> str:
        """Return the command as a person would type it."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return " ".join([*settings, shlex.join(self.argv)])
