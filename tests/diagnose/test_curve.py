"""Noise, tails and correlation, against numbers made to be known."""

from random import Random

import pytest

from diagnose.made_runs import step
from unisono.diagnose.evidence.curve import (
    correlated,
    mean_loss,
    noise_of,
    tail_of,
    window_losses,
)


def test_noise_is_the_scatter_around_the_course_not_the_course():
    random = Random(1)
    falling = [3.0 - 0.01 * n for n in range(400)]
    assert noise_of(falling) == pytest.approx(0.0, abs=1e-9)
    noisy = [value + random.gauss(0, 0.1) for value in falling]
    assert noise_of(noisy) == pytest.approx(0.1, rel=0.2)


def test_too_short_a_curve_has_no_noise():
    assert noise_of([]) == noise_of([1.0, 2.0]) == 0.0


def test_the_tail_is_the_last_third():
    tail = tail_of([(n, 10.0 - n) for n in range(1, 10)])
    assert (tail.points, tail.first_step, tail.last_step) == (3, 7, 9)
    assert tail.gain == pytest.approx(3.0)


def test_the_mean_loss_weighs_by_tokens_and_passes_over_what_is_no_number():
    steps = [step(1, loss=2.0), step(2, loss=float("nan")), step(3, loss=4.0)]
    assert mean_loss(steps) == pytest.approx(3.0)


def test_windows_end_with_the_last_step():
    steps = [step(n, loss=5.0 if n <= 50 else 1.0) for n in range(1, 71)]
    assert window_losses(steps)[-1] == 1.0
    assert len(window_losses(steps)) == 3


def test_constant_series_do_not_correlate():
    assert correlated([1.0] * 20, [float(n) for n in range(20)]) is None
    assert correlated([1.0, 2.0], [1.0, 2.0]) is None
