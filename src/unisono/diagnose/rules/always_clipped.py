"""Clipping at every step is a lower learning rate in disguise."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.curve import is_finite, number
from unisono.diagnose.report import Finding
from unisono.diagnose.words import percent


@dataclass(frozen=True)
class AlwaysClipped:
    """The gradient was longer than `train.clip_norm` in nearly all updates."""

    share: float = 0.95
    skip: int = 50
    fewest: int = 100

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        limit = case.setting("train", "clip_norm", 0.0)
        recorded = [step.gradient_norm for step in case.run.steps[self.skip :]]
        norms = [number(norm) for norm in recorded if is_finite(norm)]
        if limit <= 0 or len(norms) < self.fewest:
            return ()
        clipped = sum(norm > limit for norm in norms) / len(norms)
        if clipped <= self.share:
            return ()
        middle = sorted(norms)[len(norms) // 2]
        return (
            Finding(
                id="always_clipped",
                severity="info",
                summary=f"Gradients were clipped in {percent(clipped)} of the updates.",
                evidence=(f"median norm {middle:.3g}, `train.clip_norm` {limit:g}",),
                advice="Raise `train.clip_norm` above the median norm, so that it only catches "
                "outliers.",
            ),
        )
