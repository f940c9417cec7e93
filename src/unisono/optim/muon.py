"""Muon: matrices move by their momentum made orthogonal; everything else moves as with Adam.

An orthogonal matrix has only singular values of 1, so an update turns all directions of a
matrix by the same amount, however unevenly the gradient is spread over them (Jordan et al.,
2024). The Newton–Schulz iteration finds it with products alone. Steps are scaled so that the
mean square of an update is that of Adam's: one schedule suits both (Liu et al., 2025).

Several linear layers in one matrix (query, key and value) are taken apart first, since each is
a map of its own. On a GPU, matrices of one shape go through the iteration together. On a CPU
each goes by itself: that is as fast there, and several processes with the same gradients may
share the matrices out without changing a bit (`Sharing`). The iteration needs few digits: if
training is in bf16, its products are, too. Weights and momentum stay fp32.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from unisono.optim.lean import lean

# The polynomial a x + b x^3 + c x^5 lifts small singular values fast; after five rounds all lie
# between about 0.7 and 1.2, which is close enough.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
LEAST_NORM = 1e-7
RMS_OF_ADAM = 0.2  # of an update of Adam, in units of the rate
LARGEST_BATCH = 2**23  # numbers that go through the iteration at once
PARTS = "parts"  # key of a group of matrices: how many layers each of them holds


Piece = tuple[Tensor, Tensor]  # what moves, and the direction that is to be made orthogonal


class Sharing(Protocol):
    """How processes that have the same gradients share out the iteration."""

    @property
    def place(self) -> tuple[int, int]:
        """Return which of how many processes this one is; (0, 1) if each works for itself."""

    def gathered(self, mine: Tensor) -> Sequence[Tensor]:
        """Return the tensors of all processes, in order; they have one shape."""


class MuonWithAdam(torch.optim.Optimizer):
    """Muon for the groups `matrices`, which have the key `parts`; fused AdamW for `others`.

    Weight decay is decoupled for both. `sharing` may be set before any step. The iteration
    computes in the number type `products`.
    """

    def __init__(
        self,
        matrices: Sequence[dict[str, Any]],
        others: Sequence[dict[str, Any]],
        *,
        momentum: float,
        products: torch.dtype = torch.float32,
        **adam: Any,
    ) -> None:
        self.sharing: Sharing | None = None
        self.products = products
        self._adam = lean(torch.optim.AdamW)(list(others), fused=True, **adam)
        super().__init__(list(matrices), {"lr": adam["lr"], "momentum": momentum})
        self._matrices = list(self.param_groups)
        # One list of groups and one state: whoever sets rates or saves state sees both.
        self.param_groups.extend(self._adam.param_groups)
        self._adam.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move all weights that have a gradient."""
        del closure
        for group in self._matrices:
            self._move(group)
        self._adam.step()

    def shapes(self) -> dict[torch.Size, int]:
        """Return how many matrices of each shape go through the iteration, taken apart."""
        counts: dict[torch.Size, int] = defaultdict(int)
        for group in self._matrices:
            for weight in group["params"]:
                counts[weight.chunk(group[PARTS])[0].shape] += group[PARTS]
        return counts

    def _move(self, group: dict[str, Any]) -> None:
        weights = [weight for weight in group["params"] if weight.grad is not None]
        pieces: dict[torch.Size, list[Piece]] = defaultdict(list)
        for weight in weights:
            direction = self._direction(weight, group["momentum"])
            weight.mul_(1.0 - group["lr"] * group["weight_decay"])
            chunks = zip(weight.chunk(group[PARTS]), direction.chunk(group[PARTS]), strict=True)
            for part, towards in chunks:
                pieces[part.shape].append((part, towards))
        rank, size = self.sharing.place if self.sharing is not None else (0, 1)
        for shape, alike in pieces.items():
            rate = group["lr"] * RMS_OF_ADAM * math.sqrt(max(shape))
            for batch in _batches(alike, shape.numel(), size):
                for (part, _), update in zip(
                    batch, self._turned(batch, rank, size), strict=False
                ):
                    part.sub_(update, alpha=rate)

    def _turned(self, batch: Sequence[Piece], rank: int, size: int) -> Iterator[Tensor]:
        """Yield the orthogonal directions of `batch`, computed here or by all processes."""
        directions = [towards for _, towards in batch]
        if self.sharing is None or size == 1:
            yield from self._all_orthogonal(directions)
            return
        each = -(-len(directions) // size)
        mine = torch.zeros(each, *directions[0].shape, device=directions[0].device)
        for row, made in enumerate(
            self._all_orthogonal(directions[rank * each : (rank + 1) * each])
        ):
            mine[row] = made
        for theirs in self.sharing.gathered(mine):
            yield from theirs

    def _direction(self, weight: Tensor, decay: float) -> Tensor:
        """Take the gradient into the momentum, and return where Nesterov's rule points."""
        gradient, state = weight.grad, self.state[weight]
        assert gradient is not None
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight)
        momentum: Tensor = state["momentum"]
        momentum.lerp_(gradient, 1.0 - decay)
        return gradient.lerp(momentum, decay)

    def _all_orthogonal(self, directions: Sequence[Tensor]) -> Iterator[Tensor]:
        if directions and directions[0].device.type == "cpu":
            for direction in directions:
                yield orthogonal(direction, self.products)
        elif directions:
            yield from orthogonal(torch.stack(list(directions)), self.products)


def orthogonal(matrices: Tensor, products: torch.dtype = torch.float32) -> Tensor:
    """Return the orthogonal matrix nearest each of `matrices` ((N,) R, C), about, as fp32."""
    a, b, c = COEFFICIENTS
    # On a CPU bf16 is twice as fast for one matrix as for a batch of one.
    add_product = torch.addmm if matrices.dim() == 2 else torch.baddbmm
    tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if tall else matrices
    x = (x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=LEAST_NORM)).to(products)
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = add_product(x, add_product(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).float()


def _batches(
    pieces: Sequence[Piece], numbers: int, processes: int
) -> Iterator[Sequence[Piece]]:
    most = max(1, LARGEST_BATCH // numbers) * processes
    for first in range(0, len(pieces), most):
        yield pieces[first : first + most]
