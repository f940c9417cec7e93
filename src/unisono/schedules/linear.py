"""Warm up, then go down in a straight line."""

from unisono.schedules.rate import Floor, Rate, Rated, Steps, warmed_up


class Linear(Rated, frozen=True, tag="linear"):
    """Rise linearly to `peak`, then fall linearly to `floor` at `total_steps` and stay."""

    total_steps: Steps
    peak: Rate = 5e-4
    floor: Floor = 0.0
    warmup_steps: Steps = 4000

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.peak * warmed_up(step, self.warmup_steps)
        left = (self.total_steps - step) / max(1, self.total_steps - self.warmup_steps)
        return self.floor + (self.peak - self.floor) * max(0.0, min(1.0, left))

    def formula(self) -> str:
        """Return the rule with this run's numbers put in."""
        return (
            f"lr rises linearly to {self.peak:g} over {self.warmup_steps} steps, then falls "
            f"linearly to {self.floor:g} at step {self.total_steps}"
        )
