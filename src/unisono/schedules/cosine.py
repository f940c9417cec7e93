"""Warm up, then follow half a cosine down to a floor."""

import math

from unisono.schedules.rate import Floor, Rate, Rated, Steps, warmed_up


class Cosine(Rated, frozen=True, tag="cosine"):
    """Rise linearly to `peak`, then glide to `floor` at `total_steps` and stay."""

    total_steps: Steps
    peak: Rate = 5e-4
    floor: Floor = 0.0
    warmup_steps: Steps = 4000

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.peak * warmed_up(step, self.warmup_steps)
        done = (step - self.warmup_steps) / max(1, self.total_steps - self.warmup_steps)
        height = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
        return self.floor + (self.peak - self.floor) * height

    def formula(self) -> str:
        """Return the rule with this run's numbers put in."""
        return (
            f"lr rises linearly to {self.peak:g} over {self.warmup_steps} steps, then follows "
            f"half a cosine to {self.floor:g} at step {self.total_steps}"
        )
