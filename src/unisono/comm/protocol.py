"""What the rest of Unisono knows about other processes: `Comm`, `Replica`, `Strategy`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn

from unisono.stopwatch import Stopwatch

LossOf = Callable[[nn.Module, Any], Tensor]


@dataclass(frozen=True)
class World:
    """Rank and size: which of the processes this one is.

    `interface` and `address` are those of the network it uses, if any; `warnings` list what
    was doubtful when the processes found each other. `fabric` names the InfiniBand or RoCE
    adapters that NCCL uses instead of the interface.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    device: str = "cpu"
    interface: str = ""
    address: str = ""
    warnings: tuple[str, ...] = ()
    fabric: str = ""

    @property
    def leads(self) -> bool:
        """Whether this process writes the files that exist once per run."""
        return self.rank == 0


class Comm(Protocol):
    """What processes exchange besides gradients."""

    @property
    def world(self) -> World:
        """Return the rank of this process and the size of the group."""

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of `tensor` over all processes, on all processes."""

    def gather(self, numbers: Sequence[float | Tensor]) -> list[list[float]]:
        """Return every process's `numbers`, in order of rank, on all processes.

        A number may be a tensor on the device of this process, which is waited for only once.
        """

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """Return every process's `data`, of any length, in order of rank, on all processes."""

    def gather_tensors(self, tensor: Tensor) -> list[Tensor]:
        """Return every process's `tensor`, all of one shape, in order of rank, on all."""

    def from_leader(self, tensor: Tensor) -> Tensor:
        """Return the leading process's `tensor`; the others pass one of its shape and type."""

    def to_leader(self, tensor: Tensor) -> list[Tensor]:
        """Return every process's `tensor`, all of one shape, on the leading process only."""

    def deal(self, shares: Sequence[Tensor], like: Tensor) -> Tensor:
        """Return this process's share of the leader's `shares`, all shaped like `like`."""

    def any(self, flag: bool) -> bool:
        """Return whether `flag` is set on any process: how the run makes every decision."""

    def barrier(self) -> None:
        """Wait until all processes have called this."""

    def close(self) -> None:
        """Leave the group."""


@dataclass(frozen=True, eq=False)
class StrategyTensors:
    """Tensors that replicas keep, by name: `shared` ones are the same on all processes.

    `own` ones have the same names and shapes everywhere, but only their sum counts.
    """

    own: Mapping[str, Tensor] = field(default_factory=dict)
    shared: Mapping[str, Tensor] = field(default_factory=dict)


class StrategyState(Protocol):
    """What a replica keeps from one update to the next besides weights and optimizer."""

    def begin(self, step: int, scale: float) -> None:
        """Prepare for update `step`, whose losses are multiplied by `scale`."""

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        """Record that update `step` moved the weights, or was skipped, on all processes.

        A gradient that was exchanged but never settled has no effect.
        """

    def rate_factor(self, *, words: bool) -> float:
        """Return the factor on the schedule's learning rate for the current update.

        Embedding matrices (`words`) may have another factor than all other weights.
        """

    @property
    def agreed(self) -> bool:
        """Return whether all processes must have the same weights now."""

    def is_last_apart(self, step: int) -> bool:
        """Return whether weights that have diverged must be equal again after `step`."""

    def agree(self, others: Sequence[Tensor], rough: Sequence[Tensor] = ()) -> None:
        """Make the weights, and the `others` derived from them, equal on all processes.

        For the `rough` ones, three digits are enough. The run calls this before anything reads
        the weights: a validation, a checkpoint.
        """

    def before_save(self) -> None:
        """Make what a checkpoint has to hold small; all processes call this together."""

    def state(self) -> StrategyTensors:
        """Return what a checkpoint must hold to continue exactly."""

    def load(self, kept: StrategyTensors) -> None:
        """Continue from `kept`, whatever the state is now; with nothing kept, start anew."""


class Replica(Protocol):
    """One process's copy of the model, and how its gradients join those of the others."""

    @property
    def module(self) -> nn.Module:
        """Return the model itself, for saving and decoding."""

    @property
    def memory(self) -> StrategyState:
        """Return what the replica keeps from one update to the next."""

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        """Leave in `.grad` the sum over all processes and batches; return this one's loss.

        `stopwatch` gets the seconds of "forward", "backward" and "exchange"; the last counts
        only what the backward pass did not hide.
        """


class Strategy(Protocol):
    """How replicas come to agree. A frozen dataclass of settings.

    One that `sync.strategy` can name also has a class method `from_settings`, which
    `comm/strategies/build.py` calls, and an entry in `cost_model/strategies.py`.
    """

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        """Return this process's replica of `model`."""
