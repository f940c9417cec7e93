"""Warm up, then stay."""

from unisono.schedules.rate import Rate, Rated, Steps, warmed_up


class Constant(Rated, frozen=True, tag="constant"):
    """Rise linearly to `peak` over `warmup_steps` and stay there."""

    peak: Rate = 3e-4
    warmup_steps: Steps = 0

    def __call__(self, step: int) -> float:
        return self.peak * warmed_up(step, self.warmup_steps)

    def formula(self) -> str:
        """Return the rule with this run's numbers put in."""
        return f"lr = {self.peak:g} · min(1, step / {max(1, self.warmup_steps)})"
