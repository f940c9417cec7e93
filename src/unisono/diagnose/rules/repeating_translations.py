"""Translations that say the same again and again."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.curve import is_young
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count
from unisono.records.events import Sample

LONGEST_SHOWN = 120


@dataclass(frozen=True)
class RepeatingTranslations:
    """In the last validations, samples say a few words many times in a row.

    Early in training that is normal, and so it is where the reference does it too.
    """

    times: int = 4
    words: int = 4
    in_a_row: int = 2

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        validations = case.run.validations
        if is_young(validations):
            return ()
        steps = [event.step for event in validations[-self.in_a_row :]]
        found = [self._stuck(case.run.samples.get(step, ())) for step in steps]
        if not all(found):
            return ()
        last, samples = found[-1], len(case.run.samples[steps[-1]])
        return (
            Finding(
                id="repeating_translations",
                severity="warning",
                summary=f"{len(last)} of {count(samples, 'sample')} of the last validation say "
                f"the same words {self.times} times in a row or more.",
                evidence=tuple(
                    f"step {steps[-1]:,}: “{_clipped(sample.translation)}”"
                    for sample in last[:3]
                ),
                advice="Train longer. If it stays, look for lines in the training set that "
                "repeat themselves, and translate with a larger beam.",
            ),
        )

    def _stuck(self, samples: tuple[Sample, ...]) -> list[Sample]:
        return [
            sample
            for sample in samples
            if self._repeats(sample.translation) and not self._repeats(sample.reference)
        ]

    def _repeats(self, text: str) -> bool:
        words = text.lower().split()
        return any(
            words[at : at + size] * self.times == words[at : at + size * self.times]
            for size in range(1, self.words + 1)
            for at in range(len(words) - size * self.times + 1)
        )


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + " …"
