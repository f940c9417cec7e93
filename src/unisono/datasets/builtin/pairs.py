"""A sentence in both languages, and what makes two clauses one sentence."""

from typing import NamedTuple

from unisono.datasets.builtin.phrases import Combination


class SentencePair(NamedTuple):
    """An English sentence, its German translation, and the words it combines."""

    source: str
    target: str
    combinations: tuple[Combination, ...] = ()


def sentence(
    english: str, german: str, combinations: tuple[Combination, ...], mark: str = "."
) -> SentencePair:
    """Begin with a capital letter and end with a mark, in both languages."""
    return SentencePair(
        source=f"{english[0].upper()}{english[1:]}{mark}",
        target=f"{german[0].upper()}{german[1:]}{mark}",
        combinations=combinations,
    )
