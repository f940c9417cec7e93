"""What a replica carries from one update to the next, and how it gets into a checkpoint.

Most carry nothing. A strategy that sends less than all keeps what it did not send.
"""

from collections.abc import Mapping, Sequence

import msgspec
import torch
from torch import Tensor

from unisono.comm.collectives import tensors_from_leader
from unisono.comm.protocol import Comm, StrategyTensors
from unisono.stopwatch import Stopwatch


class SameWeights:
    """Part of the memory of replicas whose weights are always the same."""

    def rate_factor(self, *, words: bool) -> float:
        return 1.0  # every update is one of all processes

    @property
    def agreed(self) -> bool:
        """Return that all have the same weights."""
        return True

    def is_last_apart(self, step: int) -> bool:
        return False

    def agree(self, others: Sequence[Tensor], rough: Sequence[Tensor] = ()) -> None:
        pass  # they do


class NoState(SameWeights):
    """The memory of a replica that needs none."""

    def begin(self, step: int, scale: float) -> None:
        pass  # every update is like the first

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        pass  # nothing is left over

    def state(self) -> StrategyTensors:
        return StrategyTensors()

    def load(self, kept: StrategyTensors) -> None:
        pass  # whatever another strategy kept


SHARED = "shared"


def collect(comm: Comm, kept: StrategyTensors) -> dict[str, Tensor]:
    """Return on the leading process what all keep, each tensor under its owner's name.

    Of `own` only the sum counts: what is all zeros need not be kept.
    """
    found = {f"{SHARED}/{name}": tensor.cpu() for name, tensor in kept.shared.items()}
    for name, mine in kept.own.items():
        for rank, theirs in enumerate(comm.to_leader(mine)):
            if bool(theirs.any()):
                found[f"{rank}/{name}"] = theirs.cpu().contiguous()
    return found


def deal(comm: Comm, found: Mapping[str, Tensor]) -> StrategyTensors:
    """Return what this process gets of the leading one's `found`, of however many processes.

    Of `own` only the sum counts. Process r of n gets that of the processes r, r + n, …: its
    own if there are as many as before, and nothing is lost if there are more or fewer.
    """
    shared, owned = _by_owner(found)
    names = msgspec.json.encode(
        {name: list(theirs[min(theirs)].shape) for name, theirs in owned.items()}
    )
    told = comm.gather_bytes(names)[0]
    own = {}
    for name, shape in msgspec.json.decode(told, type=dict[str, list[int]]).items():
        shares = _shares(owned.get(name, {}), shape, comm.world.size)
        own[name] = comm.deal(shares, torch.empty(shape))
    return StrategyTensors(own=own, shared=tensors_from_leader(comm, shared))


def _by_owner(
    found: Mapping[str, Tensor],
) -> tuple[dict[str, Tensor], dict[str, dict[int, Tensor]]]:
    shared: dict[str, Tensor] = {}
    owned: dict[str, dict[int, Tensor]] = {}
    for key, tensor in found.items():
        owner, _, name = key.partition("/")
        if owner == SHARED:
            shared[name] = tensor
        else:
            owned.setdefault(name, {})[int(owner)] = tensor
    return shared, owned


def _shares(theirs: Mapping[int, Tensor], shape: list[int], size: int) -> list[Tensor]:
    shares = [torch.zeros(shape) for _ in range(size)]
    for rank, tensor in sorted(theirs.items()):
        shares[rank % size] += tensor
    return shares
