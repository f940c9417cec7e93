"""Sudden jumps of the training loss."""

from dataclasses import dataclass
from statistics import median

from unisono.diagnose.case import Case
from unisono.diagnose.curve import is_finite, number
from unisono.diagnose.report import MOST_STEPS, Finding
from unisono.diagnose.words import count
from unisono.records.events import StepTaken


@dataclass(frozen=True)
class LossSpike:
    """The loss jumped far above its recent median, for `in_a_row` updates or more."""

    window: int = 50
    deviations: float = 6.0
    rise: float = 0.2
    in_a_row: int = 2

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        steps = [step for step in case.run.steps if is_finite(step.loss)]
        spikes = self._spikes(steps)
        if not spikes:
            return ()
        highest = max(spikes, key=lambda step: number(step.loss))
        return (
            Finding(
                id="loss_spike",
                severity="warning",
                summary=f"The training loss jumped {count(len(spikes), 'time')}, the highest "
                f"to {highest.loss:.2f} at step {highest.step:,}.",
                evidence=tuple(
                    f"step {step.step:,}: loss {step.loss:.3f}, gradient norm "
                    f"{number(step.gradient_norm):.3g}, learning rate {step.learning_rate:.3g}"
                    for step in spikes[:5]
                ),
                advice="Lower the peak rate, warm up longer, or set `train.clip_norm`.",
                steps=tuple(step.step for step in spikes[:MOST_STEPS]),
            ),
        )

    def _spikes(self, steps: list[StepTaken]) -> list[StepTaken]:
        """Return the first update of each jump."""
        spikes: list[StepTaken] = []
        limit, above = float("inf"), 0
        for place, step in enumerate(steps):
            if place >= self.window and place % 10 == 0 and not above:
                limit = self._limit(
                    [number(s.loss) for s in steps[place - self.window : place]]
                )
            above = above + 1 if number(step.loss) > limit else 0
            if above == self.in_a_row:
                spikes.append(steps[place - self.in_a_row + 1])
            if above > self.window:  # it stays up there: that is a new level, not a spike
                limit, above = float("inf"), 0
        return spikes

    def _limit(self, losses: list[float]) -> float:
        middle = median(losses)
        deviation = 1.4826 * median(abs(loss - middle) for loss in losses)
        return middle + max(self.deviations * deviation, self.rise * middle)
