"""PyTorch's DistributedDataParallel without torch's compiler (as in `unisono.optim.lean`).

DDP loads it to ask how it is compiled, and to say that a method is not to be.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# The answer of a compiler that does not compile.
NO_COMPILER = SimpleNamespace(
    utils=SimpleNamespace(get_optimize_ddp_mode=lambda: "no_optimization")
)


def lean_ddp(model: nn.Module, **options: Any) -> DistributedDataParallel:
    """Return `model` in DDP."""
    plain = inspect.unwrap(DistributedDataParallel._inside_ddp_forward)
    if "_dynamo" not in vars(torch):
        setattr(plain, "__dynamo_disable", plain)
    try:
        with stand_in(torch, "_dynamo", NO_COMPILER):
            return DistributedDataParallel(model, **options)
    except AttributeError:  # this torch asks its compiler for more
        return DistributedDataParallel(model, **options)


@contextmanager
def stand_in(module: ModuleType, name: str, value: object) -> Iterator[None]:
    """Give `module` an attribute within the block, unless it has it already."""
    if name in vars(module):
        yield
        return
    setattr(module, name, value)
    try:
        yield
    finally:
        if vars(module).get(name) is value:
            delattr(module, name)
