"""The weights of a model as one row of numbers, cut into equal pieces that take turns."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Slice:
    """The numbers from `start` to `stop` of weight number `weight`."""

    weight: int
    start: int
    stop: int


def fragment_count(local_steps: int, most: int) -> int:
    """Return how many fragments take turns in `local_steps` updates, at most `most`.

    At equal distances each has as long to travel as any other. Where that would leave only
    few, large ones, distances differ by one update.
    """
    equal = max(n for n in range(1, min(local_steps, most) + 1) if local_steps % n == 0)
    return equal if 2 * equal > min(local_steps, most) else min(local_steps, most)


def fragments_of(sizes: Sequence[int], count: int) -> list[list[Slice]]:
    """Cut weights of `sizes` numbers into `count` fragments as equal as can be."""
    total = sum(sizes)
    bounds = [total * number // count for number in range(count + 1)]
    fragments: list[list[Slice]] = [[] for _ in range(count)]
    offset = 0
    for weight, size in enumerate(sizes):
        for number, fragment in enumerate(fragments):
            start = max(bounds[number], offset) - offset
            stop = min(bounds[number + 1], offset + size) - offset
            if start < stop:
                fragment.append(Slice(weight, start, stop))
        offset += size
    return fragments


def turn(local_step: int, local_steps: int, count: int) -> int | None:
    """Return the fragment to be sent after local update number `local_step`, if any.

    Each of `count` has its turn once in `local_steps` updates, at equal distances.
    """
    place = (local_step - 1) % local_steps
    for number in range(count):
        if place == (number + 1) * local_steps // count - 1:
            return number
    return None
