"""Whether bf16 pays on this CPU: its instructions, then products of the model, measured.

A measurement may come out differently the next time, so it counts once: all processes agree on
the result, the run's config.toml records it, and a continued run does not measure again.
"""

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from unisono.errors import ConfigError

# Casts, and what stays fp32, take part of what faster products gain.
LEAST_GAIN = 1.4
# Below this width a step is mostly not products, and other things decide.
LEAST_WIDTH = 128
ROWS, ROUNDS, SECONDS = 1024, 5, 0.3
INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}  # as Linux calls them on x86 and on Arm


def multiplies_in_bf16(
    precision: Literal["auto", "fp32", "bf16"], device: str, width: int, inner: int
) -> bool:
    """Return whether a model of these sizes translates in bf16 on `device`.

    Only a CPU with instructions for it does, "auto" only if a measured product gains enough.
    """
    if precision != "bf16":
        return precision == "auto" and device == "cpu" and bf16_pays(width, inner)
    if device == "cpu" and has_bf16():
        return True
    raise ConfigError(
        "bf16 is for processors that have instructions for it"
        + (", and this one has none" if device == "cpu" else ", not for GPUs"),
        where="--precision",
        fix="leave it out: auto takes what is fastest here",
    )


@cache
def bf16_pays(width: int, inner: int) -> bool:
    """Return whether a layer of these sizes is so much faster in bf16 that training gains."""
    return width >= LEAST_WIDTH and has_bf16() and product_gain(width, inner) >= LEAST_GAIN


@cache
def has_bf16() -> bool:
    """Return whether the processor multiplies bf16 itself; torch would emulate it slowly."""
    return bool(INSTRUCTIONS & _flags(Path("/proc/cpuinfo")))


def product_gain(width: int, inner: int) -> float:
    """Return how many times as fast products in bf16 are, by the best of interleaved rounds.

    Processor time of one thread, so that other programs count as little as possible.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _gain(torch.ones(ROWS, width), torch.ones(inner, width))
    finally:
        torch.set_num_threads(threads)


def _gain(rows: Tensor, weights: Tensor) -> float:
    half_rows, half_weights = rows.bfloat16(), weights.bfloat16()
    slow, fast = [], []
    until = time.thread_time() + SECONDS
    for done in range(ROUNDS + 1):  # the first makes the programs, and does not count
        slow.append(_seconds(lambda: torch.mm(rows, weights.t())))
        fast.append(_seconds(lambda: torch.mm(half_rows, half_weights.t())))
        if done and time.thread_time() > until:
            break
    return min(slow[1:]) / min(fast[1:])


def _seconds(action: Callable[[], object]) -> float:
    began = time.thread_time()
    action()
    return max(time.thread_time() - began, 1e-9)


def _flags(cpuinfo: Path) -> set[str]:
    if not cpuinfo.is_file():
        return set()
    lines = cpuinfo.read_text("utf-8", errors="replace").splitlines()
    listed = (line.split(":", 1)[1] for line in lines if line.startswith(("flags", "Features")))
    return set(next(listed, "").split())
