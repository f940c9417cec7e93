"""Number types inside the model. Weights, gradients and the optimizer stay fp32."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import msgspec
import torch

from unisono.errors import ConfigError

Kind = Literal["fp32", "bf16", "fp16"]
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

LARGEST_SCALE = 2.0**24
GROW_AFTER = 2000


@dataclass(frozen=True)
class Precision:
    """The number type of the forward pass, on a kind of device."""

    kind: Kind = "fp32"
    device: str = "cpu"

    def autocast(self) -> AbstractContextManager[object]:
        """Return a block in which torch chooses the number types."""
        if self.kind == "fp32":
            return nullcontext()
        return torch.autocast(torch.device(self.device).type, dtype=TYPES[self.kind])

    @property
    def scales(self) -> bool:
        """Whether to scale losses up, so that small gradients do not vanish."""
        return self.kind == "fp16"


class LossScale(msgspec.Struct, frozen=True):
    """The factor on losses before the backward pass; always a power of two."""

    value: float = 2.0**16
    updates: int = 0

    def after(self, *, skipped: bool) -> "LossScale":
        """Return the next scale: half after an overflow, double after many good updates.

        All processes agree on `skipped`, so they agree on the scale.
        """
        if skipped:
            return LossScale(max(1.0, self.value / 2), 0)
        if self.updates + 1 == GROW_AFTER:
            return LossScale(min(LARGEST_SCALE, 2 * self.value), 0)
        return LossScale(self.value, self.updates + 1)


def check_precision(precision: Precision) -> None:
    """Raise a ConfigError if torch cannot train in this precision on this device."""
    if precision.kind == "fp32":
        return
    numbers = torch.ones(8, 8, device=precision.device, requires_grad=True)
    try:
        with precision.autocast():
            made = torch.nn.functional.linear(numbers, numbers)
        made.sum().backward()
        works = made.dtype == TYPES[precision.kind]
    except RuntimeError:
        works = False
    if not works:
        raise ConfigError(
            f"torch {torch.__version__} cannot train in {precision.kind} on {precision.device}",
            where="[train] precision",
            fix='set `precision = "fp32"`, or train on a GPU',
        )


def set_tf32(wanted: bool, device: str) -> None:
    """Let matrix products of a GPU round their factors to TF32, or not."""
    if device.startswith("cuda"):
        torch.backends.cuda.matmul.allow_tf32 = wanted
        torch.backends.cudnn.allow_tf32 = wanted
