"""Updates that were not made."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.curve import is_finite
from unisono.diagnose.report import MOST_STEPS, Finding
from unisono.diagnose.words import count, percent


@dataclass(frozen=True)
class SkippedSteps:
    """Loss or gradient was not a finite number, and the update was left out.

    In fp16 losses are scaled up, at first by 2^16, and a gradient that overflows halves that:
    so many updates with a finite loss may be left out, and now and then one more.
    """

    many: float = 0.01
    halvings: int = 16

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        steps = case.run.steps
        lost = [s for s in steps if s.skipped or not is_finite(s.loss)]
        overflows = sum(is_finite(s.loss) for s in lost)
        if _scales(case) and overflows <= self.halvings + self.many * len(steps):
            lost = [s for s in lost if not is_finite(s.loss)]
        if not lost:
            return ()
        share = len(lost) / len(steps)
        numbers = ", ".join(f"{step.step:,}" for step in lost[:8])
        return (
            Finding(
                id="skipped_steps",
                severity="error" if share > self.many else "warning",
                summary=f"{count(len(lost), 'update')} of {len(steps):,} ({percent(share)}) "
                "did not count: no finite loss or gradient, or a process that failed.",
                evidence=(f"steps {numbers}{' …' if len(lost) > 8 else ''}",),
                advice="Lower the peak rate, warm up longer, or set `train.clip_norm`.",
                steps=tuple(step.step for step in lost[:MOST_STEPS]),
            ),
        )


def _scales(case: Case) -> bool:
    train = case.run.config.get("train")
    return isinstance(train, dict) and train.get("precision") == "fp16"
