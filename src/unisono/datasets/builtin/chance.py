"""Choices that fall the same way on every machine and with every version of Python."""

import random
from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")


class Chance:
    """A stream of choices that follows from one seed.

    Only `Random.random` promises the same numbers for ever, so nothing else is used.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def pick(self, options: Sequence[Option]) -> Option:
        """Choose one of the options; repeat an option to make it likelier."""
        return options[int(self._random() * len(options))]

    def happens(self, probability: float) -> bool:
        """Say yes with the given probability."""
        return self._random() < probability
