"""Number types inside the model. Weights, gradients and the optimizer stay fp32."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import torch

from unisono.comm.protocol import Comm
from unisono.errors import ConfigError
from unisono.models.cpu_bf16 import bf16_pays, has_bf16
from unisono.models.cpu_linear import CpuLinear
from unisono.models.half_weights import HalfWeights
from unisono.models.settings import TransformerSettings

Kind = Literal["fp32", "bf16", "fp16"]
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

AUTO_PRECISION = "auto"
# From what every device can do to what only the latest can.
KINDS: tuple[Kind, ...] = ("fp32", "fp16", "bf16")
FIRST_WITH_FP16, FIRST_WITH_BF16 = (7, 0), (8, 0)  # compute capabilities

LARGEST_SCALE = 2.0**24
GROW_AFTER = 2000


@dataclass(frozen=True)
class Precision:
    """The number type of the forward pass, on a kind of device."""

    kind: Kind = "fp32"
    device: str = "cpu"
    compiles: bool = False
    _halves: HalfWeights = field(default_factory=HalfWeights, compare=False, repr=False)

    def autocast(self) -> AbstractContextManager[object]:
        """Return a block in which layers compute in this type: ours for bf16 on a CPU.

        Elsewhere torch chooses the types, and under the compiler, which cannot trace ours.
        """
        if self.kind == "fp32":
            return nullcontext()
        if self._is_ours:
            return self._halves.used_here()
        return torch.autocast(torch.device(self.device).type, dtype=TYPES[self.kind])

    def casting_once(self) -> AbstractContextManager[object]:
        """Return a block in which `autocast` blocks cast each weight once.

        The cast weights are forgotten at its end. Weights must not change within it.
        """
        if self._is_ours:
            return self._halves.kept()
        if self.kind == "fp32" or not self.device.startswith("cuda"):
            return nullcontext()
        return torch.autocast("cuda", enabled=False)

    @property
    def _is_ours(self) -> bool:
        return self.kind == "bf16" and self.device.startswith("cpu") and not self.compiles

    @property
    def optimizer_products(self) -> torch.dtype:
        """Return the number type in which an optimizer may multiply matrices.

        fp16 reaches too few sizes of numbers for it.
        """
        return torch.bfloat16 if self.kind == "bf16" else torch.float32

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


def fastest_precision(device: str, model: TransformerSettings) -> Kind:
    """Return the precision in which a device trains `model` fastest.

    For GPUs that follows from their tensor cores: a P100 has none, and torch does not reach its
    rate for fp16. Before 8.0, bf16 is emulated. On a CPU products are measured, once.
    """
    if not device.startswith("cuda"):
        return "bf16" if bf16_pays(model.width, model.inner) else "fp32"
    capability = torch.cuda.get_device_capability(device)
    if capability >= FIRST_WITH_BF16:
        return "bf16"
    return "fp16" if capability >= FIRST_WITH_FP16 else "fp32"


def agreed_precision(comm: Comm, recorded: str, model: TransformerSettings) -> Kind:
    """Return what all devices are fastest in; all processes call this together.

    A run that the leader continues keeps its `recorded` precision.
    """
    known = KINDS.index(recorded) if recorded in KINDS else -1
    rows = comm.gather([KINDS.index(fastest_precision(comm.world.device, model)), known])
    kept = int(rows[0][1])
    return KINDS[kept if kept >= 0 else int(min(row[0] for row in rows))]


def check_precision(precision: Precision) -> None:
    """Raise a ConfigError if torch cannot train in this precision on this device."""
    if precision.kind == "fp32":
        return
    if precision.kind == "bf16" and precision.device.startswith("cuda"):
        _check_bf16(precision.device)
    numbers = torch.ones(8, 8, device=precision.device, requires_grad=True)
    try:
        with precision.autocast():
            made = CpuLinear(8, 8, device=precision.device)(numbers)
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


def slow_precision(precision: Precision) -> str:
    """Return a warning if the processor only emulates what the settings name, or ""."""
    on_cpu = precision.device.startswith("cpu")
    if precision.kind == "fp32" or not on_cpu or (precision.kind == "bf16" and has_bf16()):
        return ""
    return (
        f"this processor has no {precision.kind}: torch emulates it, several times slower than "
        'fp32; `train.precision = "auto"` chooses what is fast'
    )


def _check_bf16(device: str) -> None:
    if torch.cuda.get_device_capability(device) < FIRST_WITH_BF16:
        raise ConfigError(
            f"a {torch.cuda.get_device_name(device)} has no bf16: torch would emulate it, "
            "slower than fp32",
            where="[train] precision",
            fix='set `precision = "auto"` or "fp16"',
        )


def set_tf32(wanted: bool, device: str) -> None:
    """Let matrix products of a GPU round their factors to TF32, or not."""
    if device.startswith("cuda"):
        torch.backends.cuda.matmul.allow_tf32 = wanted
        torch.backends.cudnn.allow_tf32 = wanted
