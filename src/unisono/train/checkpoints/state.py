"""Conversion between the live model and optimizer and the tensors of a checkpoint.

An optimizer's state is named after the weights it belongs to: `encoder.0.….weight/exp_avg`.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unisono.errors import DataError


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights themselves by name."""
    return {name: weight.detach() for name, weight in model.named_parameters()}


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state itself, by the weight's name and its own."""
    return {
        f"{name}/{key}": value.detach()
        for name, weight in model.named_parameters()
        for key, value in optimizer.state.get(weight, {}).items()
        if isinstance(value, Tensor)
    }


def live_moments(optimizer: Optimizer) -> list[Tensor]:
    """Return the optimizer's own tensors of moments, not copies, without its step counts."""
    return [
        value
        for group in optimizer.param_groups
        for weight in group["params"]
        for value in optimizer.state.get(weight, {}).values()
        if isinstance(value, Tensor) and value.dim() > 0
    ]


def restore_model(model: nn.Module, tensors: Mapping[str, Tensor], *, where: str) -> None:
    """Load the weights into the model; names and shapes must match."""
    weights = dict(model.named_parameters())
    for name in sorted(weights.keys() ^ tensors.keys()):
        raise DataError(f"weight {name} is only in the model or only in the file", where=where)
    for name, weight in weights.items():
        if weight.shape != tensors[name].shape:
            raise DataError(
                f"{name} is {tuple(tensors[name].shape)} in the file and "
                f"{tuple(weight.shape)} in the model",
                where=where,
                fix="use the settings the run was started with",
            )
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[name])


def restore_optimizer(
    model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], *, where: str
) -> None:
    """Load the optimizer's state."""
    weights = dict(model.named_parameters())
    optimizer.state.clear()
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        if name not in weights:
            raise DataError(f"the optimizer's {key} belongs to no weight", where=where)
        # Adam counts its steps on the CPU unless it is fused on a GPU; torch moves it.
        place = weights[name].device
        optimizer.state[weights[name]][part] = value.to(place)
