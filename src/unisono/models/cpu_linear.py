"""Matrix products on a CPU, by whichever library is fastest there.

torch multiplies with MKL, which wastes a twelfth of a training step on AMD processors
(docs/explanations/model.md). numpy's OpenBLAS does not. Everywhere else torch multiplies: on
GPUs, in bf16, under autocast, while compiling, and with several threads, because the thread
pools of two libraries get in each other's way. The choice follows from the machine, never from
a measurement: a continued run must end in the same bits.
"""

import platform
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from unisono.models.half_products import half_linear
from unisono.models.half_weights import HalfWeights, half_weights
from unisono.models.packed_products import PackedWeight


class CpuLinear(nn.Linear):
    """A linear layer with a bias; `parts` layers share its matrix, one below the other."""

    parts: int = 1
    _packed: PackedWeight | None = None

    def pack(self) -> None:
        """Multiply in bf16 from now on, in inference mode; the weights must not change."""
        self._packed = PackedWeight(self.weight, self.bias)

    @property
    def packed(self) -> PackedWeight | None:
        """Return the weight to multiply with in bf16, or None."""
        return self._packed if torch.is_inference_mode_enabled() else None

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` (..., inputs) as (..., outputs)."""
        packed = self.packed
        if packed is not None:
            return packed(x)
        halves = halves_for(x)
        if halves is not None:
            return half_linear(x, self.weight, self.bias, halves)
        if not _by_numpy(x):
            return F.linear(x, self.weight, self.bias)
        if torch.is_grad_enabled():
            return cast("Tensor", _Linear.apply(x, self.weight, self.bias))
        return _product(x, self.weight, self.bias)


def multiply(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Write the product of two matrices to `out`, outside autograd."""
    if _by_numpy(left):
        with np.errstate(
            all="ignore"
        ):  # the training step finds and reports what is not finite
            np.matmul(left.detach().numpy(), right.detach().numpy(), out=out.numpy())
        return out
    return torch.mm(left, right, out=out)


def halves_for(x: Tensor) -> HalfWeights | None:
    """Return the weights in bf16 to multiply `x` with, or None to multiply in fp32."""
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return None
    return half_weights()


def as_factor(x: Tensor) -> Tensor:
    """Return `x` as the number type of its products, to convert it once for several."""
    return x if halves_for(x) is None else x.bfloat16()


@cache
def numpy_is_faster() -> bool:
    """Return whether numpy's BLAS is faster than torch's on this machine."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    return "openblas" in str(blas) and _vendor() == "AuthenticAMD"


def _by_numpy(x: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()  # first, because the compiler cannot trace the others
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and torch.get_num_threads() == 1
        and numpy_is_faster()
        and not torch.is_autocast_enabled("cpu")
    )


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, _ = ctx.needs_input_grad
        rows, x_grad, weight_grad, bias_grad = _rows(grad), None, None, None
        if needs_x:
            x_grad = torch.empty_like(x)
            multiply(rows, weight, out=_rows(x_grad))
        if needs_weight:
            weight_grad, bias_grad = torch.empty_like(weight), rows.sum(0)
            multiply(rows.t(), _rows(x), out=weight_grad)
        return x_grad, weight_grad, bias_grad


def _product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    y = x.new_empty(*x.shape[:-1], weight.size(0))
    multiply(_rows(x), weight.t(), out=_rows(y))
    return y.add_(bias)


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.size(-1))


def _vendor() -> str:
    """Return the vendor of the processor, as Linux reports it."""
    if platform.machine() != "x86_64" or not Path("/proc/cpuinfo").is_file():
        return ""
    lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    vendors = (line.split(":")[1].strip() for line in lines if line.startswith("vendor_id"))
    return next(vendors, "")
