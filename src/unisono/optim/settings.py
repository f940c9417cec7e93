"""The settings of the optimizers. No torch here.

To add one: a class, an entry in OPTIMIZERS, and a case in build.py.
"""

from typing import Annotated

import msgspec

Decay = Annotated[float, msgspec.Meta(ge=0, lt=1)]
Small = Annotated[float, msgspec.Meta(ge=0)]


class OptimizerSettings(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="name"
):
    """Settings of an optimizer, chosen in TOML by `name`. The rate comes from the schedule."""


class Adam(OptimizerSettings, frozen=True, tag="adam"):
    """Adam, with the defaults of Transformer-base."""

    beta1: Decay = 0.9
    beta2: Decay = 0.997
    epsilon: Small = 1e-9
    weight_decay: Small = 0.0


class AdamW(OptimizerSettings, frozen=True, tag="adamw"):
    """Adam with decoupled weight decay (not applied to norms and biases)."""

    beta1: Decay = 0.9
    beta2: Decay = 0.98
    epsilon: Small = 1e-9
    weight_decay: Small = 0.01


class Sgd(OptimizerSettings, frozen=True, tag="sgd"):
    """Plain gradient descent, with momentum if it is set."""

    momentum: Decay = 0.0
    weight_decay: Small = 0.0


class Adafactor(OptimizerSettings, frozen=True, tag="adafactor"):
    """Adam without momentum, with row and column sums instead of every squared gradient.

    The schedule's rate is relative to the size of each weight, and at most 1/sqrt(step).
    `epsilon1` = 0 stands for the machine epsilon of the weights; `clip` limits the size of an
    update before the rate is applied.
    """

    beta2_decay: Annotated[float, msgspec.Meta(le=0)] = -0.8
    epsilon1: Small = 0.0
    epsilon2: Small = 1e-3
    clip: Annotated[float, msgspec.Meta(ge=1)] = 1.0
    weight_decay: Small = 0.0


class Muon(OptimizerSettings, frozen=True, tag="muon"):
    """Muon for the matrices of the layers, Adam for words, positions, norms and biases.

    Both take the schedule's rate, and rates that suit Adam suit Muon. `momentum` is Muon's;
    `beta1`, `beta2` and `epsilon` are Adam's. Weight decay is decoupled.
    """

    momentum: Decay = 0.95
    beta1: Decay = 0.9
    beta2: Decay = 0.98
    epsilon: Small = 1e-9
    weight_decay: Small = 0.0


Optimizer = Adam | AdamW | Sgd | Adafactor | Muon

OPTIMIZERS: dict[str, type[Optimizer]] = {
    "adam": Adam,
    "adamw": AdamW,
    "sgd": Sgd,
    "adafactor": Adafactor,
    "muon": Muon,
}
