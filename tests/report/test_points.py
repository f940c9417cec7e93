"""Ticks are round, and few points tell the truth about many."""

import math

import pytest

from diagnose.made_runs import healthy_run, step
from unisono.report.panel import (
    Span,
    binned,
    finite,
    labels,
    span_of,
    step_ticks,
    thinned,
    ticks,
)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, ["0", "2", "4", "6", "8", "10"]),
        (1.9, 2.6, ["2.0", "2.2", "2.4", "2.6"]),
        (0, 1.2, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2"]),
        (0, 60_000, ["0", "10,000", "20,000", "30,000", "40,000", "50,000", "60,000"]),
        (3, 3, ["3"]),
    ],
)
def test_ticks_are_round_and_alike(low, high, expected):
    assert labels(ticks(low, high)) == expected


def test_quarters_keep_both_digits():
    assert labels([0.0, 0.25, 0.5]) == ["0.00", "0.25", "0.50"]


def test_tiny_values_are_written_with_exponents():
    assert labels([0.0, 0.00002]) == ["0", "2e-5"]


def test_the_axis_begins_at_0_unless_the_run_begins_far_from_it():
    assert span_of(healthy_run()) == Span(0.0, 200.0)
    late = healthy_run(ranks={0: tuple(step(n) for n in range(900, 1001))}, validations=())
    assert span_of(late) == Span(900.0, 1000.0)
    assert step_ticks(Span(900.0, 1000.0)) == [920.0, 940.0, 960.0, 980.0, 1000.0]
    assert span_of(healthy_run(ranks={}, validations=())) == Span(0.0, 1.0)


def test_bins_hold_every_point_once():
    points = [(float(n), math.sin(n / 50)) for n in range(10_007)]
    points[4321], points[8765] = (4321.0, 99.0), (8765.0, -99.0)
    bins = binned(points)
    assert len(bins) <= 200
    assert max(b.high for b in bins) == 99.0
    assert min(b.low for b in bins) == -99.0
    width = math.ceil(10_007 / 200)
    sizes = [width] * (len(bins) - 1) + [10_007 - width * (len(bins) - 1)]
    total = sum(b.mean * size for b, size in zip(bins, sizes, strict=True))
    assert total == pytest.approx(sum(y for _, y in points))


def test_few_points_stay_as_they_are():
    points = [(1.0, 2.0), (2.0, 1.0)]
    assert thinned(points) == points
    assert [(b.x, b.mean, b.low, b.high) for b in binned(points)] == [
        (1.0, 2.0, 2.0, 2.0),
        (2.0, 1.0, 1.0, 1.0),
    ]


def test_thinning_keeps_what_stands_out():
    points = [(float(n), math.sin(n / 50)) for n in range(10_000)]
    points[4321], points[8765] = (4321.0, 99.0), (8765.0, -99.0)
    few = thinned(points)
    assert len(few) <= 400
    assert few == sorted(few)
    assert (4321.0, 99.0) in few
    assert (8765.0, -99.0) in few


def test_what_is_not_a_number_is_left_out():
    assert finite([(1, 2.0), (2, math.nan), (3, None), (4, math.inf)]) == [(1, 2.0)]
