"""How replicas come to agree, as a user writes it. No torch here."""

from typing import Annotated, Literal

import msgspec


class Sync(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The exchange of gradients between processes, and what is done when one is lost.

    Within `lost_after` a process that is dead, stopped or out of reach is named everywhere.
    With 0 for `bucket_mb` "auto" chooses it, and the others take the usual one.
    """

    strategy: Literal["ddp", "all_reduce", "compressed", "powersgd", "diloco", "auto"] = "ddp"
    bits: Literal[4, 8, 16] = 8
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
