"""What all schedules promise."""

from typing import Annotated

import msgspec

Steps = Annotated[int, msgspec.Meta(ge=0)]
Rate = Annotated[float, msgspec.Meta(gt=0)]
Floor = Annotated[float, msgspec.Meta(ge=0)]


class Rated(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="name"):
    """Settings of a schedule, chosen in TOML by `name`. Steps count from 1."""


def warmed_up(step: int, warmup_steps: int) -> float:
    """Return the share of the full rate at `step` of a linear warm-up: at most 1."""
    return min(1.0, step / warmup_steps) if warmup_steps else 1.0
