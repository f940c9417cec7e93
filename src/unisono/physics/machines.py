"""Which processes share a machine."""

from collections import Counter
from collections.abc import Sequence


def machines_of(hosts: Sequence[str], local_ranks: Sequence[int]) -> list[list[int]]:
    """Return the ranks of each machine, in the order of their first.

    A machine has each local rank once: where one comes again under the same name, it is
    another machine that is called the same.
    """
    seen: Counter[tuple[str, int]] = Counter()
    found: dict[tuple[str, int], list[int]] = {}
    for rank, place in enumerate(zip(hosts, local_ranks, strict=True)):
        found.setdefault((place[0], seen[place]), []).append(rank)
        seen[place] += 1
    return list(found.values())


def parties(machines: Sequence[Sequence[int]]) -> int:
    """Return how many speak in an exchange that goes through each machine's card once.

    On one machine there is no card to spare, and every process speaks for itself.
    """
    return len(machines) if len(machines) > 1 else sum(map(len, machines))
