"""What all answers and rules look at, worked out once."""

from dataclasses import dataclass
from functools import cached_property

from unisono.diagnose.bottleneck import find_bottleneck
from unisono.diagnose.evidence.imported_exchange import computed_bottleneck
from unisono.diagnose.evidence.ledger import Ledger, keep_ledger
from unisono.diagnose.evidence.machine_load import Load, loads_of
from unisono.diagnose.evidence.sessions import RunSession, sessions_of
from unisono.diagnose.evidence.traffic import Node, nodes_of
from unisono.diagnose.report import Bottleneck
from unisono.records.view import RunView


@dataclass(frozen=True)
class Case:
    """A run, the moment it is looked at (Unix time), and what follows from both."""

    run: RunView
    now: float
    sessions: tuple[RunSession, ...]
    ledger: Ledger
    bottleneck: Bottleneck

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Return what the machines did to the network."""
        return nodes_of(self.run)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """Return how busy the machines were."""
        return loads_of(self.run)

    @property
    def size(self) -> int:
        """Return the number of processes of the last session."""
        return self.sessions[-1].size if self.sessions else 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the numbers of processes of all sessions, in the order of time."""
        return tuple(session.size for session in self.sessions)

    @property
    def parameters(self) -> int:
        """Return the number of weights of the model, or 0 if no process said."""
        return self.run.last_starts[0].parameters if self.run.last_starts else 0

    def setting(self, table: str, name: str, default: float) -> float:
        """Return a number of the configuration, or `default` where it is missing."""
        section = self.run.config.get(table)
        value = section.get(name, default) if isinstance(section, dict) else default
        return float(value) if isinstance(value, int | float) else default


def open_case(run: RunView, now: float) -> Case:
    """Work out sessions, ledger and bottleneck of `run`."""
    sessions = sessions_of(run)
    ledger = keep_ledger(run, sessions)
    if run.imported is not None:
        return Case(run, now, sessions, ledger, computed_bottleneck(run.imported, ledger))
    return Case(run, now, sessions, ledger, find_bottleneck(ledger))
