"""What a replica carries from one update to the next, and how it gets into a checkpoint.

Most strategies carry nothing. One that sends less than the whole gradient keeps the residual:
what it dropped, to be added to the next gradient. Gradients come in DDP's buckets: the residual
of a bucket is one row of numbers, in the order of its weights and padded to whole blocks. DDP
makes other buckets after its first exchange, and so do other settings; checkpoints know only
the weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor

from unisono.comm.collectives import take_means, tensors_from_leader
from unisono.comm.protocol import Comm, StrategyTensors
from unisono.comm.strategies.quantize import padded
from unisono.cost_model.strategies import DEFAULT_STRATEGY
from unisono.errors import ConfigError, DataError
from unisono.stopwatch import Stopwatch


def alone_error(strategy: str) -> ConfigError:
    """Return the error for a strategy that makes no sense with a single process."""
    return ConfigError(
        f"{strategy} with one process is a no-op: there is nobody to agree with",
        where="sync.strategy",
        fix=f'set `strategy = "{DEFAULT_STRATEGY}"`, or start more processes',
    )


class SameWeights:
    """The part of a state that all replicas share whose weights never differ."""

    def rate_factor(self, *, words: bool) -> float:
        return 1.0  # all processes make every update together

    @property
    def agreed(self) -> bool:
        """Return that all have the same weights."""
        return True

    def is_last_apart(self, step: int) -> bool:
        return False

    def agree(self, others: Sequence[Tensor], rough: Sequence[Tensor] = ()) -> None:
        pass  # they always have the same weights

    def before_save(self) -> None:
        pass  # each process saves what it has


class NoState(SameWeights):
    """The state of a replica that keeps nothing."""

    def begin(self, step: int, scale: float) -> None:
        pass  # every update is like the first

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        pass  # there is no residual

    def state(self) -> StrategyTensors:
        return StrategyTensors()

    def load(self, kept: StrategyTensors) -> None:
        pass  # another strategy kept it


SHARED = "shared"


Store = Callable[[str, Tensor], Tensor]
"""Returns what is to be kept of a tensor, which it gets with its name."""


def on_cpu(name: str, tensor: Tensor) -> Tensor:
    """Return the tensor, on the CPU."""
    return tensor.cpu().contiguous()


def collect(comm: Comm, kept: StrategyTensors, store: Store = on_cpu) -> dict[str, Tensor]:
    """Return on the leading process what all keep, each tensor under its owner's rank.

    `store` gets each before the next one is sent. Of `own` only the sum counts: tensors of
    zeros are left out, and not sent if no other process has anything.
    """
    found = {}
    # One message for all flags, which stay on the device: to ask each would wait for a GPU.
    flags = [tensor.any() for tensor in kept.own.values()]
    rows = comm.gather(flags) if flags else []
    for name, tensor in kept.shared.items() if comm.world.leads else ():
        found[f"{SHARED}/{name}"] = store(f"{SHARED}/{name}", tensor)
    for (name, mine), filled in zip(kept.own.items(), zip(*rows, strict=True), strict=True):
        sent = comm.to_leader(mine) if any(filled[1:]) else [mine] * comm.world.leads
        for rank, theirs in enumerate(sent):
            if filled[rank]:
                found[f"{rank}/{name}"] = store(f"{rank}/{name}", theirs)
    return found


def deal(comm: Comm, found: Mapping[str, Tensor]) -> StrategyTensors:
    """Return this process's share of the leading one's `found`, for any number of processes.

    Of `own` only the sum counts. Process r of n gets that of the processes r, r + n, …: its
    own if there are as many as before, and nothing is lost if there are more or fewer.
    """
    shared, owned = _by_owner(found)
    names = msgspec.json.encode(
        {name: list(theirs[min(theirs)].shape) for name, theirs in owned.items()}
    )
    listed = comm.gather_bytes(names)[0]
    own = {}
    for name, shape in msgspec.json.decode(listed, type=dict[str, list[int]]).items():
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


@dataclass(frozen=True, eq=False)
class _Piece:
    """The residual of one bucket, in the order of its weights."""

    weights: tuple[Tensor, ...]
    numbers: Tensor

    def views(self) -> dict[Tensor, Tensor]:
        sizes = [weight.numel() for weight in self.weights]
        parts = self.numbers[: sum(sizes)].split(sizes)
        return {w: part.view_as(w) for w, part in zip(self.weights, parts, strict=True)}


class Residuals:
    """The residuals of one process. Those of an update count once it was made."""

    def __init__(self, weights: Mapping[str, Tensor], shares: int = 1) -> None:
        """Pad each bucket to whole blocks, as many for each of `shares`."""
        self._shares = shares
        self._names = {weight: name for name, weight in weights.items()}
        self._loaded: dict[Tensor, Tensor] = {}
        self._pieces: dict[int, _Piece] = {}
        self._proposed: dict[int, _Piece] = {}
        self._spare: dict[int, Tensor] = {}

    def has(self, weights: Sequence[Tensor]) -> bool:
        """Whether any of these weights has a residual."""
        known = {weight for piece in self._pieces.values() for weight in piece.weights}
        return any(weight in known or weight in self._loaded for weight in weights)

    def of(self, bucket: int, weights: Sequence[Tensor]) -> Tensor:
        """Return the residual of these weights, which make up `bucket`."""
        piece = self._pieces.get(bucket)
        if piece is None or not _same(piece.weights, weights):
            self._loaded = self._by_weight()  # other buckets may need what was in this one
            piece = self._pieces[bucket] = self._arrange(weights)
            self._spare.pop(bucket, None)
        return piece.numbers

    def spare(self, bucket: int) -> Tensor:
        """Return memory of the size of `of(bucket)`, to be filled and proposed."""
        spare = self._spare.pop(bucket, None)
        return torch.zeros_like(self._pieces[bucket].numbers) if spare is None else spare

    def propose(self, bucket: int, numbers: Tensor) -> None:
        """Set the residual of `bucket`, in case the update is made."""
        self._proposed[bucket] = _Piece(self._pieces[bucket].weights, numbers)

    def settle(self, *, moved: bool) -> None:
        """Keep the proposed residuals if the update was made, or forget them."""
        if moved and self._proposed:
            self._pieces, self._proposed, self._loaded = self._proposed, self._pieces, {}
        self._spare = {bucket: piece.numbers for bucket, piece in self._proposed.items()}
        self._proposed = {}

    def add(self, weight: Tensor, numbers: Tensor) -> None:
        """Add `numbers` to the residual of `weight`."""
        for piece in self._pieces.values():
            if any(one is weight for one in piece.weights):
                piece.views()[weight].add_(numbers)
                return
        before = self._loaded.get(weight)
        self._loaded[weight] = numbers if before is None else before + numbers

    def tensors(self) -> dict[str, Tensor]:
        """Return the residuals by the name of the weight."""
        known = self._by_weight()
        return {
            name: known[weight] if weight in known else torch.zeros_like(weight.detach())
            for weight, name in self._names.items()
        }

    def pool(self, sum_of: Callable[[Tensor], Tensor], *, keep: bool) -> None:
        """Let the process that is to `keep` them have the residuals of all, the others none."""
        left = self.tensors()
        take_means(sum_of, 1, list(left.values()))
        self.load(left if keep else {})

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with `tensors`, by the name of the weight; what is not there is zero."""
        weights = {name: weight for weight, name in self._names.items()}
        for name, tensor in tensors.items():
            if name not in weights or weights[name].shape != tensor.shape:
                raise DataError(
                    f"the residual of {name}, {tuple(tensor.shape)}, fits no weight",
                    where="the checkpoint",
                    fix="continue with the settings the run was started with",
                )
        self._pieces, self._proposed, self._spare = {}, {}, {}
        self._loaded = {
            weights[name]: tensor.to(weights[name].device) for name, tensor in tensors.items()
        }

    def _arrange(self, weights: Sequence[Tensor]) -> _Piece:
        known = self._by_weight()
        size = padded(sum(weight.numel() for weight in weights), self._shares)
        piece = _Piece(tuple(weights), torch.zeros(size, device=weights[0].device))
        for weight, view in piece.views().items():
            if weight in known:
                view.copy_(known[weight])
        return piece

    def _by_weight(self) -> dict[Tensor, Tensor]:
        known = dict(self._loaded)
        for piece in self._pieces.values():
            known.update(piece.views())
        return known


def _same(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
