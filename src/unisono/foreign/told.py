"""What the user knows of a foreign run and its records do not tell."""

from dataclasses import dataclass

import msgspec

from unisono.errors import ConfigError
from unisono.records.imported import Imported


@dataclass(frozen=True)
class Told:
    """Facts from the command line; 0 is what was not given."""

    processes: int = 0
    machines: int = 0
    parameters: int = 0
    link_bits_per_second: float = 0.0
    link_measured: bool = False

    def applied(self, about: Imported) -> Imported:
        """Return `about` with these facts in it; one that contradicts it is refused."""
        told = []
        for name in ("processes", "machines", "parameters"):
            mine, found = getattr(self, name), getattr(about, name)
            if mine and found and mine != found:
                raise ConfigError(
                    f"{found:,} {name} are recorded, not {mine:,}",
                    where=f"--{name}",
                    fix="leave it out: it is for what the records do not tell",
                )
            if mine and not found:
                told.append(name)
                about = msgspec.structs.replace(about, **{name: mine})
        if about.processes and about.machines > about.processes:
            raise ConfigError(
                f"{about.processes} processes cannot be on {about.machines} machines",
                where="--machines",
                fix="give the number of processes with --processes, too",
            )
        if self.link_bits_per_second:
            told.append("link")
        return msgspec.structs.replace(
            about,
            link_bits_per_second=self.link_bits_per_second,
            link_measured=self.link_measured,
            told=tuple(told),
        )
