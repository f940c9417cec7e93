"""Translations that are empty, short or repetitive, and a test set that training has seen."""

import math
from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import is_young
from unisono.diagnose.evidence.run_files import CorpusFacts, corpus_facts
from unisono.diagnose.report import Finding, finding
from unisono.diagnose.wording import count, percent
from unisono.records.events import Sample, Tested, Validated
from unisono.records.sentence_losses import TIMES, repeats_itself


@dataclass(frozen=True)
class EmptyTranslations:
    """The last validation, or the test, has empty translations.

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
        return _empty_finding(case, found) if found else ()


def _empty(test: Tested) -> int:
    """Return how many translations are empty; older runs recorded only their length."""
    none_at_all = test.reference_length > 0 and test.translation_length == 0
    return test.sentences if none_at_all else test.empty


def _empty_finding(case: Case, found: list[tuple[str, int, int, int]]) -> tuple[Finding, ...]:
    name, _, empty, sentences = max(found, key=lambda one: one[2] / max(1, one[3]))
    return finding(
        "empty_translations",
        f"{percent(empty / max(1, sentences))} of the translations of the {name} set "
        "are empty.",
        *(
            f"{name} set: {empty:,} of {count(sentences, 'sentence')} at step {step:,}"
            for name, step, empty, sentences in found
        ),
        advice=f"{_train_longer(case)}Look for empty or misaligned lines in the training set, "
        "and raise `decoding.length_penalty`.",
    )


def _train_longer(case: Case) -> str:
    """Advise to train longer, unless that does harm."""
    return "" if case.should_stop or case.divergence else "Train longer. "


LONGEST_SHOWN = 120
MOST_SHOWN = 3


@dataclass(frozen=True)
class RepeatingTranslations:
    """Translations of the last validations repeat a few words many times in a row.

    Early in training that is normal, and so it is where the reference does the same. The run
    counts all translations; of older runs, the samples decide.
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
            return _repeating_finding(case, _counted(last[-1]), last, stuck[-1])
        if not all(stuck):
            return ()
        samples = count(len(case.run.samples[last[-1].step]), "sample")
        return _repeating_finding(case, f"{len(stuck[-1])} of {samples}", last, stuck[-1])


def _counted(event: Validated) -> str:
    share = percent(event.repeating / event.sentences)
    return f"{share} of the {count(event.sentences, 'translation')}"


def _repeating_finding(
    case: Case, how_many: str, validations: tuple[Validated, ...], stuck: list[Sample]
) -> tuple[Finding, ...]:
    last = validations[-1]
    counts = [
        f"step {event.step:,}: {event.repeating:,} of {count(event.sentences, 'translation')}"
        for event in validations
        if event.repeating >= 0
    ]
    shown = [
        f"step {last.step:,}: “{_clipped(sample.translation)}”" for sample in stuck[:MOST_SHOWN]
    ]
    return finding(
        "repeating_translations",
        f"{how_many} of the last validation repeat the same words {TIMES} times in a "
        "row or more.",
        *counts,
        *shown,
        advice=f"{_train_longer(case)}Look for lines in the training set that repeat "
        "themselves, and translate with a larger beam.",
    )


def _stuck(samples: tuple[Sample, ...]) -> list[Sample]:
    return [
        sample
        for sample in samples
        if repeats_itself(sample.translation) and not repeats_itself(sample.reference)
    ]


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + " …"


@dataclass(frozen=True)
class ShortTranslations:
    """The translations of the last validation are much shorter than the references.

    Lengths are those that BLEU compares; for runs that did not record them, the words of the
    samples, if there are enough. Early in training short translations are normal.
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
        return _short_finding(case, last.step, translated, reference, unit)


def _short_finding(
    case: Case, step: int, translated: int, reference: int, unit: str
) -> tuple[Finding, ...]:
    share = translated / reference
    penalty = math.exp(1 - reference / translated) if translated else 0.0
    return finding(
        "short_translations",
        f"Translations have {percent(share)} of the length of the references, which "
        f"alone multiplies BLEU by {penalty:.2f}.",
        f"step {step:,}: {translated:,} {unit} for {reference:,} of the references",
        advice=f"{_train_longer(case)}Raise `decoding.length_penalty`, and check whether the "
        "training set has cut or misaligned lines, or `corpus.max_pieces` drops long ones.",
    )


def _words(samples: tuple[Sample, ...]) -> tuple[int, int]:
    return (
        sum(len(sample.translation.split()) for sample in samples),
        sum(len(sample.reference.split()) for sample in samples),
    )


HELD_OUT = ("valid", "test")


@dataclass(frozen=True)
class TestOverlap:
    """The run trained on pairs of the validation or test set, or the two sets are the same.

    Pairs that `prepare` dropped for that reason do no harm.
    """

    __test__ = False  # or pytest would take the class for a test

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        facts = corpus_facts(case.run.corpus)
        if facts is None or not any(name in facts.splits for name in HELD_OUT):
            return ()
        found = [*_trained_on(facts), *_same_set(facts)]
        if not found:
            return ()
        return finding(
            "test_overlap",
            f"Scores may be too good: {found[0]}.",
            *found,
            advice="Set `corpus.drop_overlap = true`, which removes pairs of the held-out "
            "sets from the training set, name different files for validation and test, and "
            "prepare the corpus again.",
        )


def _trained_on(facts: CorpusFacts) -> list[str]:
    if facts.settings.get("drop_overlap", True) or facts.kept_overlap == 0:
        return []
    if facts.kept_overlap < 0:
        return ["nobody looked for training pairs that are also in the validation or test set"]
    kept = count(facts.kept_overlap, "training pair")
    return [f"{kept} also occur in the validation or test set, as a whole or with one side"]


def _same_set(facts: CorpusFacts) -> list[str]:
    valid, test = facts.inputs_of("valid"), facts.inputs_of("test")
    hashes = {entry.source.sha256 for entry in valid if entry.source.sha256}
    same = [entry.source.name for entry in test if entry.source.sha256 in hashes]
    return [f"validation and test set are the same file, {same[0]}"] if same else []
