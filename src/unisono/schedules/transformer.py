"""The policy of the first Transformer: rise for a while, then fall as 1/sqrt(step)."""

from unisono.schedules.rate import Rate, Rated, Steps


class Transformer(Rated, frozen=True, tag="transformer"):
    """scale · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5).

    The peak is at `warmup_steps`. `d_model` is filled in from the model's width if it is 0.
    """

    scale: Rate = 2.0
    warmup_steps: Steps = 8000
    d_model: int = 0

    def __call__(self, step: int) -> float:
        rise = step * self.warmup_steps**-1.5 if self.warmup_steps else float("inf")
        return float(self.scale * self.d_model**-0.5 * min(step**-0.5, rise))

    def formula(self) -> str:
        """Return the rule with this run's numbers put in."""
        return (
            f"lr = {self.scale:g} · {self.d_model}^-0.5 · "
            f"min(step^-0.5, step · {self.warmup_steps}^-1.5)"
        )
