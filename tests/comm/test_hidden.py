"""How much of the exchange the backward pass hides."""

import pytest

from unisono.comm.strategies.ddp import covered


@pytest.mark.parametrize(
    ("spans", "until", "seconds"),
    [
        ([], 9.0, 0.0),
        ([(1, 3)], 9.0, 2.0),
        ([(1, 3)], 2.0, 1.0),
        ([(1, 3), (2, 5)], 9.0, 4.0),  # under way at once: counted once
        ([(1, 8), (2, 3)], 9.0, 7.0),
        ([(4, 6), (1, 2)], 5.0, 2.0),
        ([(6, 7)], 5.0, 0.0),
    ],
)
def test_time_under_way_counts_once_and_until_the_last_gradient(spans, until, seconds):
    assert covered(spans, until) == pytest.approx(seconds)
