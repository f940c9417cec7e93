"""Copies of weights in bf16 for products on a CPU, each made once an update.

Weights stay fp32. A block of `HalfWeights.used_here` lets the layers of this thread multiply in
bf16 with the copies; without one they multiply in fp32. The model itself does not change, so
strategies, optimizers and checkpoints see what they always see.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_here = threading.local()


class HalfWeights:
    """The copies, which the lanes of a process share."""

    def __init__(self) -> None:
        self._copies: dict[tuple[int, torch.Size], Tensor] = {}
        self._lock = threading.Lock()
        self._kept = False

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep all copies until the end of the block; weights must not change within it."""
        self._copies.clear()
        self._kept = True
        try:
            yield
        finally:
            self._kept = False
            self._copies.clear()

    @contextmanager
    def used_here(self) -> Iterator[None]:
        """Let layers called in this block and thread multiply in bf16."""
        outer, _here.weights = half_weights(), self
        if not self._kept:
            self._copies.clear()
        try:
            yield
        finally:
            _here.weights = outer

    def of(self, weight: Tensor) -> Tensor:
        """Return the copy of `weight`, outside autograd."""
        key = (
            weight.data_ptr(),
            weight.shape,
        )  # twins of a model share the memory of its weights
        with self._lock:
            if key not in self._copies:
                self._copies[key] = weight.detach().to(torch.bfloat16)
            return self._copies[key]


def half_weights() -> HalfWeights | None:
    """Return the copies to multiply with in this thread, or None to multiply in fp32."""
    weights: HalfWeights | None = getattr(_here, "weights", None)
    return weights
