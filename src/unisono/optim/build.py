"""From settings to a torch optimizer."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from unisono.optim.settings import Adafactor, Adam, AdamW, Optimizer

UNSET_RATE = 0.0  # the schedule sets the rate before every update
WORDS = "words"  # in a group: whether its weights have a row for each word


@runtime_checkable
class Worded(Protocol):
    """A model some of whose weights have a row for each word."""

    @property
    def words(self) -> Sequence[nn.Parameter]:
        """Return these weights."""
        ...


def build_optimizer(settings: Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer that `settings` describe, for the weights of `model`."""
    groups = _groups(model, settings.weight_decay)
    if isinstance(settings, Adam | AdamW):
        kind = torch.optim.AdamW if isinstance(settings, AdamW) else torch.optim.Adam
        betas = settings.beta1, settings.beta2
        # Measured on a CPU for 7.6 million weights: fused 13 ms, one tensor after the other
        # 54, foreach 78.
        return kind(groups, lr=UNSET_RATE, betas=betas, eps=settings.epsilon, fused=True)
    if isinstance(settings, Adafactor):
        return torch.optim.Adafactor(
            groups,
            lr=UNSET_RATE,
            beta2_decay=settings.beta2_decay,
            eps=(settings.epsilon1 or None, settings.epsilon2),
            d=settings.clip,
        )
    return torch.optim.SGD(groups, lr=UNSET_RATE, momentum=settings.momentum)


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    trained = [p for p in model.parameters() if p.requires_grad]
    named: object = model
    words = set(named.words) if isinstance(named, Worded) else set()
    rows = [p for p in trained if p in words]
    matrices = [p for p in trained if p not in words and p.dim() >= 2]
    vectors = [p for p in trained if p not in words and p.dim() < 2]
    # Norms and biases are vectors; decaying them only hurts.
    return [
        {"params": matrices, "weight_decay": weight_decay, WORDS: False},
        {"params": vectors, "weight_decay": 0.0, WORDS: False},
        {"params": rows, "weight_decay": weight_decay, WORDS: True},
    ]
