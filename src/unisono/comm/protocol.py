"""What the rest of Unisono knows about other processes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from unisono.stopwatch import Stopwatch

LossOf = Callable[[nn.Module, Any], Tensor]


@dataclass(frozen=True)
class World:
    """Where this process stands among the others.

    `interface` and `address` are those of the network it uses, if it uses any; `warnings` say
    what was odd when the processes met.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    device: str = "cpu"
    interface: str = ""
    address: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def leads(self) -> bool:
        """Whether this process writes the files that exist once per run."""
        return self.rank == 0


class Comm(Protocol):
    """The few things processes say to each other outside the gradient exchange."""

    @property
    def world(self) -> World:
        """Return this process's place."""
        ...

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of `tensor` over all processes, on all processes."""
        ...

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return every process's `numbers`, in order of rank, on all processes."""
        ...

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """Return every process's `data`, of any length, in order of rank, on all processes."""
        ...

    def from_leader(self, tensor: Tensor) -> Tensor:
        """Return the leading process's `tensor`; the others pass one of its shape and type."""
        ...

    def to_leader(self, tensor: Tensor) -> list[Tensor]:
        """Return every process's `tensor`, all of one shape, on the leading process only."""
        ...

    def deal(self, shares: Sequence[Tensor], like: Tensor) -> Tensor:
        """Return this process's of the leading one's `shares`, all shaped like `like`."""
        ...

    def any(self, flag: bool) -> bool:
        """Return whether any process said yes: how the run decides anything."""
        ...

    def barrier(self) -> None:
        """Wait until all processes are here."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


@dataclass(frozen=True, eq=False)
class StrategyTensors:
    """What replicas keep, by name: `shared` is the same on all processes.

    `own` is not, but its names and shapes are, and only its sum over all processes counts.
    """

    own: Mapping[str, Tensor] = field(default_factory=dict)
    shared: Mapping[str, Tensor] = field(default_factory=dict)


class StrategyState(Protocol):
    """What a replica carries from one update to the next besides weights and optimizer."""

    def begin(self, step: int, scale: float) -> None:
        """Take note that update `step` comes, whose losses are multiplied by `scale`."""
        ...

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        """Take note that update `step` moved the weights, or was skipped, on all processes.

        A gradient that was exchanged and never settled leaves no trace.
        """
        ...

    def rate_factor(self, *, words: bool) -> float:
        """Return how many times the schedule's rate the update takes that has begun.

        Matrices with a row for each word may take another than all other weights.
        """
        ...

    @property
    def agreed(self) -> bool:
        """Return whether all processes must have the same weights now."""
        ...

    def is_last_apart(self, step: int) -> bool:
        """Return whether weights that went apart must be the same again after `step`."""
        ...

    def agree(self, others: Sequence[Tensor], rough: Sequence[Tensor] = ()) -> None:
        """Let all have the same weights, and of the `others` that follow from them.

        Of the `rough` ones three digits are enough. This comes before anything looks at the
        weights: a validation, a checkpoint.
        """
        ...

    def state(self) -> StrategyTensors:
        """Return what a checkpoint must hold for all to go on exactly."""
        ...

    def load(self, kept: StrategyTensors) -> None:
        """Go on from `kept`, whatever was before. Nothing kept is a beginning."""
        ...


class Replica(Protocol):
    """One process's copy of the model, and how its gradient meets the others'."""

    @property
    def module(self) -> nn.Module:
        """Return the model itself, for saving and decoding."""
        ...

    @property
    def memory(self) -> StrategyState:
        """Return what goes from one update to the next."""
        ...

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        """Leave in `.grad` the sum over all processes and batches; return this one's loss.

        `watch` gets the seconds of "forward", "backward" and "exchange", the last being
        only what the backward pass did not hide.
        """
        ...


class Strategy(Protocol):
    """How replicas come to agree. A frozen dataclass of settings."""

    exact: ClassVar[bool]
    """Whether the update equals the one a single process would make. Tests hold it to this."""

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        """Return this process's replica of `model`."""
        ...
