"""Translations that say the same again and again."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.curve import is_young
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count, percent
from unisono.records.events import Sample, Validated
from unisono.records.repetition import TIMES, repeats_itself

LONGEST_SHOWN = 120
MOST_SHOWN = 3


@dataclass(frozen=True)
class RepeatingTranslations:
    """In the last validations, translations say a few words many times in a row.

    Early in training that is normal, and so it is where the reference does it too. All
    translations are counted by the run itself; of those that did not, samples have to do.
    """

    share: float = 0.01
    in_a_row: int = 2

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        validations = case.run.validations
        if is_young(validations):
            return ()
        last = validations[-self.in_a_row :]
        stuck = [_stuck(case.run.samples.get(event.step, ())) for event in last]
        if all(event.repeating >= 0 for event in last):
            if any(event.repeating <= self.share * event.sentences for event in last):
                return ()
            return (_finding(_counted(last[-1]), last, stuck[-1]),)
        if not all(stuck):
            return ()
        samples = count(len(case.run.samples[last[-1].step]), "sample")
        return (_finding(f"{len(stuck[-1])} of {samples}", last, stuck[-1]),)


def _counted(event: Validated) -> str:
    share = percent(event.repeating / event.sentences)
    return f"{share} of the {count(event.sentences, 'translation')}"


def _finding(how_many: str, validations: tuple[Validated, ...], stuck: list[Sample]) -> Finding:
    last = validations[-1]
    counts = [
        f"step {event.step:,}: {event.repeating:,} of {count(event.sentences, 'translation')}"
        for event in validations
        if event.repeating >= 0
    ]
    shown = [
        f"step {last.step:,}: “{_clipped(sample.translation)}”" for sample in stuck[:MOST_SHOWN]
    ]
    return Finding(
        id="repeating_translations",
        severity="warning",
        summary=f"{how_many} of the last validation say the same words {TIMES} times in a row "
        "or more.",
        evidence=(*counts, *shown),
        advice="Train longer. If it stays, look for lines in the training set that "
        "repeat themselves, and translate with a larger beam.",
    )


def _stuck(samples: tuple[Sample, ...]) -> list[Sample]:
    return [
        sample
        for sample in samples
        if repeats_itself(sample.translation) and not repeats_itself(sample.reference)
    ]


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + " …"
