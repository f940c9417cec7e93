"""What rounding dropped of each gradient, to be added to the next.

Gradients come in DDP's buckets: a bucket's left-overs lie in one piece, in the order of its
weights and filled up to whole blocks. DDP makes other buckets after its first exchange, and
other settings make others; checkpoints know the weights only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unisono.comm.strategies.quantize import padded
from unisono.errors import DataError


@dataclass(frozen=True, eq=False)
class _Piece:
    """The left-overs of one bucket, in the order of its weights."""

    weights: tuple[Tensor, ...]
    numbers: Tensor

    def views(self) -> dict[Tensor, Tensor]:
        sizes = [weight.numel() for weight in self.weights]
        parts = self.numbers[: sum(sizes)].split(sizes)
        return {w: part.view_as(w) for w, part in zip(self.weights, parts, strict=True)}


class Residuals:
    """The left-overs of one process. Those of an update count once it was made."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._names = {weight: name for name, weight in weights.items()}
        self._loaded: dict[Tensor, Tensor] = {}
        self._pieces: dict[int, _Piece] = {}
        self._proposed: dict[int, _Piece] = {}
        self._spare: dict[int, Tensor] = {}

    def has(self, weights: Sequence[Tensor]) -> bool:
        """Whether anything is left over of these weights, or was asked for."""
        known = {weight for piece in self._pieces.values() for weight in piece.weights}
        return any(weight in known or weight in self._loaded for weight in weights)

    def of(self, bucket: int, weights: Sequence[Tensor]) -> Tensor:
        """Return what the last update left of these weights, which make up `bucket`."""
        piece = self._pieces.get(bucket)
        if piece is None or not _same(piece.weights, weights):
            self._loaded = self._by_weight()  # other buckets may want what was in this one
            piece = self._pieces[bucket] = self._arrange(weights)
            self._spare.pop(bucket, None)
        return piece.numbers

    def spare(self, bucket: int) -> Tensor:
        """Return memory of the size of `of(bucket)`, to be filled and proposed."""
        spare = self._spare.pop(bucket, None)
        return torch.zeros_like(self._pieces[bucket].numbers) if spare is None else spare

    def propose(self, bucket: int, numbers: Tensor) -> None:
        """Say what is left of `bucket` if the update is made."""
        self._proposed[bucket] = _Piece(self._pieces[bucket].weights, numbers)

    def settle(self, *, moved: bool) -> None:
        """Take what was proposed for the left-overs, or forget it."""
        if moved and self._proposed:
            self._pieces, self._proposed, self._loaded = self._proposed, self._pieces, {}
        self._spare = {bucket: piece.numbers for bucket, piece in self._proposed.items()}
        self._proposed = {}

    def add(self, weight: Tensor, numbers: Tensor) -> None:
        """Leave `numbers` over of `weight` as well."""
        for piece in self._pieces.values():
            if any(one is weight for one in piece.weights):
                piece.views()[weight].add_(numbers)
                return
        before = self._loaded.get(weight)
        self._loaded[weight] = numbers if before is None else before + numbers

    def tensors(self) -> dict[str, Tensor]:
        """Return the left-overs by the name of the weight."""
        known = self._by_weight()
        return {
            name: known[weight] if weight in known else torch.zeros_like(weight.detach())
            for weight, name in self._names.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with `tensors`, by the name of the weight; what is not there is zero."""
        weights = {name: weight for weight, name in self._names.items()}
        for name, tensor in tensors.items():
            if name not in weights or weights[name].shape != tensor.shape:
                raise DataError(
                    f"the left-over of {name}, {tuple(tensor.shape)}, fits no weight",
                    where="the checkpoint",
                    fix="continue with the settings the run was started with",
                )
        self._pieces, self._proposed, self._spare = {}, {}, {}
        self._loaded = {
            weights[name]: tensor.to(weights[name].device) for name, tensor in tensors.items()
        }

    def _arrange(self, weights: Sequence[Tensor]) -> _Piece:
        known = self._by_weight()
        size = padded(sum(weight.numel() for weight in weights))
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
