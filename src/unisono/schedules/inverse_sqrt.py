"""Warm up to a given peak, then decay with the inverse square root of the step."""

import math

from unisono.schedules.rate import Rate, Rated, Steps, warmed_up


class InverseSqrt(Rated, frozen=True, tag="inverse_sqrt"):
    """Rise linearly to `peak` over `warmup_steps`, then fall as 1/sqrt(step)."""

    peak: Rate = 7e-4
    warmup_steps: Steps = 4000

    def __call__(self, step: int) -> float:
        fall = math.sqrt(max(1, self.warmup_steps) / step)
        return self.peak * min(warmed_up(step, self.warmup_steps), fall)

    def formula(self) -> str:
        """Return the rule with this run's numbers put in."""
        warmup = self.warmup_steps
        return f"lr = {self.peak:g} · min(step / {warmup}, sqrt({max(1, warmup)} / step))"
