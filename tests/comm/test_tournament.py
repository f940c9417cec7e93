"""Everybody meets everybody."""

from itertools import combinations

import pytest

from unisono.comm.probes.link import rounds


@pytest.mark.parametrize("players", [2, 3, 4, 5, 8, 9])
def test_each_meets_each_once_and_nobody_twice_at_a_time(players):
    found = rounds(players)
    met = [pair for pairs in found for pair in pairs]
    assert sorted(met) == list(combinations(range(players), 2))
    for pairs in found:
        busy = [player for pair in pairs for player in pair]
        assert len(busy) == len(set(busy))


def test_it_takes_no_more_rounds_than_it_must():
    assert [len(rounds(players)) for players in (2, 3, 4, 8)] == [1, 3, 3, 7]
