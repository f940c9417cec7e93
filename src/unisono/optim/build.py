"""Build the torch optimizer that the settings describe."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from unisono.optim.settings import Adafactor, Adam, AdamW, Optimizer

UNSET_RATE = 0.0  # the schedule sets the rate before every update
EMBEDDINGS = "words"  # key of a parameter group: whether its weights are embeddings


@runtime_checkable
class HasEmbeddings(Protocol):
    """A model that knows its embedding matrices."""

    @property
    def embedding_weights(self) -> Sequence[nn.Parameter]:
        """Return the matrices that have a row for each id of a vocabulary."""
        ...


def build_optimizer(settings: Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer for the trainable weights of `model`."""
    groups = _groups(model, settings.weight_decay)
    if isinstance(settings, Adam | AdamW):
        kind = torch.optim.AdamW if isinstance(settings, AdamW) else torch.optim.Adam
        betas = settings.beta1, settings.beta2
        # Measured on a CPU with 7.6 million weights: fused 13 ms, for-loop 54 ms, foreach
        # 78 ms.
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
    embeddings = set(named.embedding_weights) if isinstance(named, HasEmbeddings) else set()
    rows = [p for p in trained if p in embeddings]
    matrices = [p for p in trained if p not in embeddings and p.dim() >= 2]
    vectors = [p for p in trained if p not in embeddings and p.dim() < 2]
    # Norms and biases are vectors; decaying them only hurts.
    return [
        {"params": matrices, "weight_decay": weight_decay, EMBEDDINGS: False},
        {"params": vectors, "weight_decay": 0.0, EMBEDDINGS: False},
        {"params": rows, "weight_decay": weight_decay, EMBEDDINGS: True},
    ]
