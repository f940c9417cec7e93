"""Updates that are always clipped, jump in loss, were skipped, or consist of padding."""

from dataclasses import dataclass
from statistics import median

from unisono.diagnose.answers.trained import steadier
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import is_finite, number
from unisono.diagnose.report import MOST_STEPS, Finding, finding
from unisono.diagnose.wording import count, percent
from unisono.records.events import StepTaken


@dataclass(frozen=True)
class AlwaysClipped:
    """Nearly all updates were clipped, which is a lower learning rate in disguise."""

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
        return finding(
            "always_clipped",
            f"`train.clip_norm` clipped the gradient in {percent(clipped)} of the updates.",
            f"median norm {middle:.3g}, `train.clip_norm` {limit:g}",
            severity="info",
            advice="Raise `train.clip_norm` above the median norm, so that it clips "
            "outliers alone.",
        )


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
        return finding(
            "loss_spike",
            f"The training loss jumped {count(len(spikes), 'time')}, the highest "
            f"to {highest.loss:.2f} at step {highest.step:,}.",
            *(
                f"step {step.step:,}: loss {step.loss:.3f}, gradient norm "
                f"{number(step.gradient_norm):.3g}, learning rate {step.learning_rate:.3g}"
                for step in spikes[:5]
            ),
            advice=steadier(case),
            steps=[step.step for step in spikes[:MOST_STEPS]],
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
            if above > self.window:  # the loss stays high: a new level, not a spike
                limit, above = float("inf"), 0
        return spikes

    def _limit(self, losses: list[float]) -> float:
        middle = median(losses)
        deviation = 1.4826 * median(abs(loss - middle) for loss in losses)
        return middle + max(self.deviations * deviation, self.rise * middle)


@dataclass(frozen=True)
class SkippedSteps:
    """Loss or gradient was not a finite number, and the run skipped the update.

    In fp16 the run scales losses up, at first by 2^16, and halves that scale when a gradient
    overflows. So it may skip 16 updates with a finite loss, and another now and then.
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
        return finding(
            "skipped_steps",
            f"{count(len(lost), 'update')} of {len(steps):,} ({percent(share)}) "
            "were skipped: no finite loss or gradient, or a process that failed.",
            f"steps {numbers}{' …' if len(lost) > 8 else ''}",
            severity="error" if share > self.many else "warning",
            advice=steadier(case),
            steps=[step.step for step in lost[:MOST_STEPS]],
        )


def _scales(case: Case) -> bool:
    train = case.run.config.get("train")
    return isinstance(train, dict) and train.get("precision") == "fp16"


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
        return finding(
            "padding",
            f"{percent(padding)} of all positions were padding.",
            f"{tokens:,} tokens in {positions:,} positions",
            advice=_less_padding(case),
        )


def _less_padding(case: Case) -> str:
    if case.memory_is_full:
        return "Drop the few longest sentences (`corpus.max_pieces`); memory is nearly full."
    return (
        "Make micro-batches larger (`batching.tokens_per_micro_batch`), so that each holds "
        "sentences of about the same length."
    )
