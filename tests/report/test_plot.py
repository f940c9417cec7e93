"""Plots: round ticks, honest thinning."""

import math

import pytest

from diagnose.made_runs import healthy_run, step
from unisono.report.axis import labels, ticks
from unisono.report.figures import rate_plot, time_plot
from unisono.report.plot import Mark, Plot, Series, draw
from unisono.report.points import finite, smoothed, thinned


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


def test_thinning_keeps_what_stands_out():
    points = [(float(n), math.sin(n / 50)) for n in range(10_000)]
    points[4321], points[8765] = (4321.0, 99.0), (8765.0, -99.0)
    few = thinned(points)
    assert len(few) <= 600
    assert few == sorted(few)
    assert (4321.0, 99.0) in few
    assert (8765.0, -99.0) in few


def test_few_points_stay_as_they_are():
    points = [(1.0, 2.0), (2.0, 1.0)]
    assert thinned(points) == points
    assert smoothed(points) == []


def test_what_is_not_a_number_is_left_out():
    assert finite([(1, 2.0), (2, math.nan), (3, None), (4, math.inf)]) == [(1, 2.0)]


def test_the_mean_of_a_noisy_line_is_its_level():
    points = [(float(n), 5.0 + (-1) ** n) for n in range(1200)]
    assert all(y == pytest.approx(5.0) for _, y in smoothed(points))


def test_a_plot_names_ends_and_marks():
    series = Series("loss <b>", [(1.0, 3.0), (10.0, 2.0)], "first", "2.000", dots=True)
    svg = draw(Plot("Loss", "nats", [series], [Mark((10.0, 2.0), "best & last", "first")]))
    assert ">best &amp; last</text>" in svg
    assert "<b>" not in svg
    assert svg.count("<circle") == 3
    assert 'aria-label="Loss: loss &lt;b&gt; ends at 2.000; best &amp; last"' in svg


def test_higher_values_lie_higher():
    svg = draw(Plot("", "", [Series("", [(0.0, 0.0), (10.0, 1.0)], "first")]))
    first, last = svg.split('d="M')[1].split('"')[0].split("L")
    assert float(first.split()[1]) > float(last.split()[1])
    assert float(first.split()[0]) < float(last.split()[0])


def test_a_plot_without_points_says_so():
    assert "Nothing was recorded" in draw(Plot("Loss", "", []))


def test_the_rate_is_drawn_in_a_readable_unit():
    plot = rate_plot(healthy_run())
    assert plot.unit == "in units of 10⁻³"
    assert max(y for _, y in plot.points) == pytest.approx(1.0)


def test_a_very_slow_step_is_told_instead_of_drawn():
    steps = (step(1, seconds=500.0), *(step(n) for n in range(2, 201)))
    plot = time_plot(healthy_run(ranks={0: steps}))
    assert plot.bounds[1] < 5
    assert "step 1 with 8 min 20 s" in plot.note
