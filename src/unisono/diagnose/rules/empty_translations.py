"""A model that answers with nothing."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count, percent


@dataclass(frozen=True)
class EmptyTranslations:
    """In the last validation, sentences came back empty. Early in training that is normal."""

    share: float = 0.01
    fewest_validations: int = 3

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        if len(case.run.validations) < self.fewest_validations:
            return ()
        last = case.run.validations[-1]
        if last.empty <= self.share * last.sentences:
            return ()
        share = percent(last.empty / max(1, last.sentences))
        of_all = f"{last.empty:,} of {count(last.sentences, 'sentence')}"
        return (
            Finding(
                id="empty_translations",
                severity="warning",
                summary=f"{share} of the validation sentences were translated as nothing.",
                evidence=(f"{of_all} at step {last.step:,}",),
                advice="Train longer; look for empty or misaligned lines in the training set; "
                "raise `decoding.length_penalty` for translation.",
            ),
        )
