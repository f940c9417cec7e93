"""An exponential moving average of the weights, which a run can validate and ship."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from unisono.errors import DataError

SUFFIX = "/average"


class Averages:
    """The averages of a model's weights, always in fp32; a decay of 0 means none.

    Early on the decay is lower, min(decay, (1 + step) / (10 + step)): otherwise the average
    would long consist of the weights the run began with.
    """

    def __init__(
        self, weights: Iterable[tuple[str, nn.Parameter]] = (), decay: float = 0.0
    ) -> None:
        self._decay = decay
        named = dict(weights) if decay else {}
        self._names = [name + SUFFIX for name in named]
        self._weights: list[Tensor] = list(named.values())
        self._averages = [
            weight.detach().to(dtype=torch.float32, copy=True) for weight in self._weights
        ]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the weights after update `step` to the averages."""
        if self._averages:
            decay = min(self._decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self._averages, self._weights, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the averages as the model's weights within the block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def live(self) -> list[Tensor]:
        """Return the averages themselves, not copies."""
        return self._averages

    def tensors(self) -> dict[str, Tensor]:
        """Return the averages themselves, by the weight's name and `SUFFIX`."""
        return dict(zip(self._names, self._averages, strict=True))

    def restore(self, tensors: Mapping[str, Tensor], *, where: str) -> None:
        """Restore the averages from those in `tensors`."""
        for name, average in zip(self._names, self._averages, strict=True):
            if name not in tensors or tensors[name].shape != average.shape:
                raise DataError(
                    f"there is no {name} of shape {tuple(average.shape)}",
                    where=where,
                    fix="continue with the `train.average` the run was started with",
                )
            average.copy_(tensors[name])

    def _swap(self) -> None:
        # Swaps two pointers: nothing is copied, so no bit can change.
        for number, weight in enumerate(self._weights):
            weight.data, self._averages[number] = self._averages[number], weight.data


def split(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the state of the optimizer and the averages, which are saved in one file."""
    state = {name: value for name, value in tensors.items() if not name.endswith(SUFFIX)}
    averages = {name: value for name, value in tensors.items() if name.endswith(SUFFIX)}
    return state, averages


def averages_of(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights under the names of their averages: what these are before any update."""
    return {name + SUFFIX: value for name, value in weights.items()}


def weights_of(averages: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return averages under the names of the weights they are averages of."""
    return {name.removesuffix(SUFFIX): value for name, value in averages.items()}
