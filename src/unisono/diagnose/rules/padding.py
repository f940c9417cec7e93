"""Arithmetic on padding."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import percent


@dataclass(frozen=True)
class Padding:
    """Too many positions of the batches were padding."""

    share: float = 0.20
    fewest: int = 20

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        steps = [step for step in case.run.steps if step.positions > 0]
        if len(steps) < self.fewest:
            return ()
        positions = sum(step.positions for step in steps)
        tokens = sum(step.source_tokens + step.target_tokens for step in steps)
        padding = 1 - tokens / positions
        if padding <= self.share:
            return ()
        return (
            Finding(
                id="padding",
                severity="warning",
                summary=f"{percent(padding)} of all positions were padding.",
                evidence=(f"{tokens:,} tokens in {positions:,} positions",),
                advice="Make micro-batches larger (`batching.tokens_per_micro_batch`), so that "
                "sentences of the same length find each other.",
            ),
        )
