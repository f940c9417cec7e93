"""Learning-rate schedules: a schedule is a function from the step to the learning rate.

To add a schedule: a class, and its name in the union `Schedule`. Its fields are its settings.
"""

import math
from typing import Annotated

import msgspec

Steps = Annotated[int, msgspec.Meta(ge=0)]
Rate = Annotated[float, msgspec.Meta(gt=0)]
Floor = Annotated[float, msgspec.Meta(ge=0)]


class ScheduleSettings(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="name"
):
    """Settings of a schedule, chosen in TOML by `name`.

    Calling it with a step, counted from 1, returns the rate; `formula` is the same as text,
    with the numbers of this run.
    """


def warmup_share(step: int, warmup_steps: int) -> float:
    """Return the share of the peak at `step` of a linear warm-up: at most 1."""
    return min(1.0, step / warmup_steps) if warmup_steps else 1.0


class Constant(ScheduleSettings, frozen=True, tag="constant"):
    """Rise linearly to `peak` over `warmup_steps`, then stay there."""

    peak: Rate = 3e-4
    warmup_steps: Steps = 0

    def __call__(self, step: int) -> float:
        return self.peak * warmup_share(step, self.warmup_steps)

    def formula(self) -> str:
        return f"lr = {self.peak:g} · min(1, step / {max(1, self.warmup_steps)})"


class LinearDecay(ScheduleSettings, frozen=True, tag="linear"):
    """Rise linearly to `peak`, then fall linearly to `floor` at `total_steps` and stay."""

    total_steps: Steps
    peak: Rate = 5e-4
    floor: Floor = 0.0
    warmup_steps: Steps = 4000

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.peak * warmup_share(step, self.warmup_steps)
        left = (self.total_steps - step) / max(1, self.total_steps - self.warmup_steps)
        return self.floor + (self.peak - self.floor) * max(0.0, min(1.0, left))

    def formula(self) -> str:
        return (
            f"lr rises linearly to {self.peak:g} over {self.warmup_steps} steps, then falls "
            f"linearly to {self.floor:g} at step {self.total_steps}"
        )


class Cosine(ScheduleSettings, frozen=True, tag="cosine"):
    """Rise linearly to `peak`, then follow half a cosine to `floor` at `total_steps`."""

    total_steps: Steps
    peak: Rate = 5e-4
    floor: Floor = 0.0
    warmup_steps: Steps = 4000

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.peak * warmup_share(step, self.warmup_steps)
        done = (step - self.warmup_steps) / max(1, self.total_steps - self.warmup_steps)
        height = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
        return self.floor + (self.peak - self.floor) * height

    def formula(self) -> str:
        return (
            f"lr rises linearly to {self.peak:g} over {self.warmup_steps} steps, then follows "
            f"half a cosine to {self.floor:g} at step {self.total_steps}"
        )


class InverseSqrt(ScheduleSettings, frozen=True, tag="inverse_sqrt"):
    """Rise linearly to `peak` over `warmup_steps`, then fall as 1/sqrt(step)."""

    peak: Rate = 7e-4
    warmup_steps: Steps = 4000

    def __call__(self, step: int) -> float:
        fall = math.sqrt(max(1, self.warmup_steps) / step)
        return self.peak * min(warmup_share(step, self.warmup_steps), fall)

    def formula(self) -> str:
        warmup = self.warmup_steps
        return f"lr = {self.peak:g} · min(step / {warmup}, sqrt({max(1, warmup)} / step))"


class Transformer(ScheduleSettings, frozen=True, tag="transformer"):
    """The first Transformer's: scale · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5).

    The peak is at `warmup_steps`. A `d_model` of 0 stands for the width of the model.
    """

    scale: Rate = 2.0
    warmup_steps: Steps = 8000
    d_model: int = 0

    def __call__(self, step: int) -> float:
        rise = step * self.warmup_steps**-1.5 if self.warmup_steps else float("inf")
        return float(self.scale * self.d_model**-0.5 * min(step**-0.5, rise))

    def formula(self) -> str:
        return (
            f"lr = {self.scale:g} · {self.d_model}^-0.5 · "
            f"min(step^-0.5, step · {self.warmup_steps}^-1.5)"
        )


Schedule = Transformer | InverseSqrt | Cosine | LinearDecay | Constant
