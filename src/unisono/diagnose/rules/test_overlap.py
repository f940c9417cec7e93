"""A test set that training has seen."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.corpus_facts import CorpusFacts, corpus_facts
from unisono.diagnose.report import Finding
from unisono.diagnose.wording import count

HELD_OUT = ("valid", "test")


@dataclass(frozen=True)
class TestOverlap:
    """Pairs of the validation or test set were trained on, or both sets are one.

    What `prepare` dropped for that reason does no harm.
    """

    __test__ = False  # for pytest, which takes the name for one of its own

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        facts = corpus_facts(case.run.corpus)
        if facts is None or not any(name in facts.splits for name in HELD_OUT):
            return ()
        found = [*_trained_on(facts), *_same_set(facts)]
        if not found:
            return ()
        return (
            Finding(
                id="test_overlap",
                severity="warning",
                summary=f"Scores may be too good: {found[0]}.",
                evidence=tuple(found),
                advice="Keep `corpus.drop_overlap = true`, which takes pairs of the held-out "
                "sets out of the training set, name different files for validation and test, "
                "and prepare the corpus again.",
            ),
        )


def _trained_on(facts: CorpusFacts) -> list[str]:
    if facts.settings.get("drop_overlap", True) or facts.kept_overlap == 0:
        return []
    if facts.kept_overlap < 0:
        return ["training pairs that stand in the validation or test set were not looked for"]
    kept = count(facts.kept_overlap, "training pair")
    return [f"{kept} stand in the validation or test set too, whole or with one side"]


def _same_set(facts: CorpusFacts) -> list[str]:
    valid, test = facts.inputs_of("valid"), facts.inputs_of("test")
    hashes = {entry.source.sha256 for entry in valid if entry.source.sha256}
    same = [entry.source.name for entry in test if entry.source.sha256 in hashes]
    return [f"validation and test set are the same file, {same[0]}"] if same else []
