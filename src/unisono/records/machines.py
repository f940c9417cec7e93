"""What was sampled on the machines of a run, read back."""

from dataclasses import dataclass

from unisono.jsonl import read_lines
from unisono.records.events import Warned
from unisono.records.layout import RunDirectory
from unisono.records.sampled import Machine, Sampled, from_lines


@dataclass(frozen=True)
class MachineLog:
    """The samples of one machine, in the order of time; a start of the run is an entry of
    `machines`.
    """

    machines: tuple[Machine, ...] = ()
    samples: tuple[Sampled, ...] = ()
    warnings: tuple[Warned, ...] = ()

    @property
    def host(self) -> str:
        """Return the name of the machine, "" if it did not say."""
        return self.machines[-1].host if self.machines else ""

    @property
    def of_last_start(self) -> tuple[Sampled, ...]:
        """Return the samples since the last start: counters of processes begin anew there."""
        began = self.machines[-1].time if self.machines else 0.0
        return tuple(sample for sample in self.samples if sample.time >= began)


def read_machines(directory: RunDirectory) -> dict[int, MachineLog]:
    """Return what was sampled on each machine, by the rank of its first process."""
    return {
        int(file.stem.removeprefix("rank-")): _read(list(from_lines(read_lines(file))))
        for file in sorted((directory.path / "monitor").glob("rank-*.jsonl"))
    }


def _read(events: list[Machine | Sampled | Warned]) -> MachineLog:
    return MachineLog(
        machines=tuple(event for event in events if isinstance(event, Machine)),
        samples=tuple(event for event in events if isinstance(event, Sampled)),
        warnings=tuple(event for event in events if isinstance(event, Warned)),
    )
