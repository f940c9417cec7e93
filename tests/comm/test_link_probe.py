"""Rates between machines, here all of them one."""

import pytest

from unisono.comm.probes.link import one_way_rates

pytestmark = pytest.mark.ranks


def rates(comm, seconds):
    return one_way_rates(comm, range(comm.world.size), seconds)


@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_pairs_for_which_there_is_no_time_are_left_out_by_all(ranks):
    every, *others = ranks.run(rates, 600.0)
    assert {(one.sender, one.receiver) for one in every} == {
        (a, b) for a in range(4) for b in range(4) if a != b
    }
    assert all(other == every for other in others)
    # Each speaks once with one of the others, in both directions.
    few, *others = ranks.run(rates, 0.0)
    assert (
        sorted(one.sender for one in few) == sorted(one.receiver for one in few) == [0, 1, 2, 3]
    )
    assert all(other == few for other in others)
