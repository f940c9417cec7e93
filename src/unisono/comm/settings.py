"""The settings of the gradient exchange, as a user writes them. No torch here."""

from typing import Annotated, Literal

import msgspec

from unisono.cost_model.strategies import DEFAULT_STRATEGY


class Sync(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How processes exchange gradients, and what they do when one of them is lost.

    A process that dies, stops or cannot be reached is named by all others within `lost_after`.
    If `bucket_mb` is 0, "auto" chooses it and the other strategies take the usual size.
    """

    strategy: str = DEFAULT_STRATEGY  # or any other of cost_model/strategies.py, or "auto"
    bits: Literal[4, 8, 16] = 8
    phases: Literal[0, 1, 2] = 0  # 0: those that send less, or with "auto" take less time
    low_rank: Annotated[int, msgspec.Meta(ge=1)] = 4
    local_steps: Annotated[int, msgspec.Meta(ge=1)] = 8
    local_rate: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    outer_rate: Annotated[float, msgspec.Meta(gt=0, le=2)] = 1.0
    outer_momentum: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    warmup_steps: Annotated[int, msgspec.Meta(ge=0)] = 1000
    closing_steps: Annotated[int, msgspec.Meta(ge=0)] = 0
    bucket_mb: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    timeout: str = "5 min"
    start_timeout: str = "5 min"
    interface: str = ""
    lost_after: str = "10 s"
    check_weights: Literal["error", "warn", "off"] = "error"
    check_weights_every_steps: Annotated[int, msgspec.Meta(ge=1)] = 1000
