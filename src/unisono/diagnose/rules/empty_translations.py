"""A model that answers with nothing."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count, percent
from unisono.records.events import Tested


@dataclass(frozen=True)
class EmptyTranslations:
    """In the last validation, or in the test, sentences came back empty.

    Early in training that is normal. A test comes at the end: after few validations, it counts
    only if more than half of it is empty.
    """

    share: float = 0.01
    fewest_validations: int = 3
    share_of_young: float = 0.5

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        enough = len(case.run.validations) >= self.fewest_validations
        found = []
        if enough:
            last = case.run.validations[-1]
            if last.empty > self.share * last.sentences:
                found.append(("validation", last.step, last.empty, last.sentences))
        if case.run.tests:
            test = case.run.tests[-1]
            limit = self.share if enough else self.share_of_young
            if _empty(test) > limit * test.sentences:
                found.append(("test", test.step, _empty(test), test.sentences))
        return (_finding(found),) if found else ()


def _empty(test: Tested) -> int:
    """Return how many sentences came back empty; what was not counted, lengths may tell."""
    none_at_all = test.reference_length > 0 and test.translation_length == 0
    return test.sentences if none_at_all else test.empty


def _finding(found: list[tuple[str, int, int, int]]) -> Finding:
    name, _, empty, sentences = max(found, key=lambda one: one[2] / max(1, one[3]))
    return Finding(
        id="empty_translations",
        severity="warning",
        summary=f"{percent(empty / max(1, sentences))} of the {name} sentences were translated "
        "as nothing.",
        evidence=tuple(
            f"{name} set: {empty:,} of {count(sentences, 'sentence')} at step {step:,}"
            for name, step, empty, sentences in found
        ),
        advice="Train longer; look for empty or misaligned lines in the training set; "
        "raise `decoding.length_penalty` for translation.",
    )
