"""Translations that leave things out."""

import math
from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.curve import is_young
from unisono.diagnose.report import Finding
from unisono.diagnose.words import percent
from unisono.records.events import Sample


@dataclass(frozen=True)
class ShortTranslations:
    """The translations of the last validation are much shorter than the references.

    Lengths are those that BLEU compares; of runs that did not record them, the words of the
    samples, if there are enough. Early in training this is normal, and without any match in
    length BLEU says nothing about the rest.
    """

    share: float = 0.85
    share_of_samples: float = 0.7
    fewest_words: int = 100

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        if is_young(case.run.validations):
            return ()
        last = case.run.validations[-1]
        translated, reference = last.translation_length, last.reference_length
        limit, unit = self.share, "tokens"
        if not reference:
            translated, reference = _words(case.run.samples.get(last.step, ()))
            limit, unit = self.share_of_samples, "words of samples"
            if reference < self.fewest_words:
                return ()
        if translated >= limit * reference:
            return ()
        return (_finding(last.step, translated, reference, unit),)


def _finding(step: int, translated: int, reference: int, unit: str) -> Finding:
    share = translated / reference
    penalty = math.exp(1 - reference / translated) if translated else 0.0
    return Finding(
        id="short_translations",
        severity="warning",
        summary=f"Translations have {percent(share)} of the length of the references; that "
        f"alone multiplies BLEU by {penalty:.2f}.",
        evidence=(f"step {step:,}: {translated:,} {unit} for {reference:,} of the references",),
        advice="Raise `decoding.length_penalty`; look whether the training set has cut or "
        "misaligned lines, and whether `corpus.max_pieces` cuts long ones; train longer.",
    )


def _words(samples: tuple[Sample, ...]) -> tuple[int, int]:
    return (
        sum(len(sample.translation.split()) for sample in samples),
        sum(len(sample.reference.split()) for sample in samples),
    )
