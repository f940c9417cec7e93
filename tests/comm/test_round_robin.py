"""Round robin: every two machines meet once."""

from itertools import combinations

import pytest

from unisono.comm.probes.link import round_robin


@pytest.mark.parametrize("players", [2, 3, 4, 5, 8, 9])
def test_each_meets_each_once_and_nobody_twice_at_a_time(players):
    found = round_robin(players)
    met = [pair for pairs in found for pair in pairs]
    assert sorted(met) == list(combinations(range(players), 2))
    for pairs in found:
        busy = [player for pair in pairs for player in pair]
        assert len(busy) == len(set(busy))


def test_it_takes_no_more_rounds_than_it_must():
    assert [len(round_robin(players)) for players in (2, 3, 4, 8)] == [1, 3, 3, 7]
