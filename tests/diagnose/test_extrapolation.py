"""The power law, against curves that follow one, and curves that do not."""

import numpy as np
import pytest

from unisono.diagnose.evidence.plateau import forecast

LAST = 10_000


def law(limit, height, exponent):
    return lambda step: limit + height * (step / LAST) ** -exponent


def curve(loss_of, points=12, noise=0.0, seed=1):
    random = np.random.default_rng(seed)
    steps = [LAST * n // points for n in range(1, points + 1)]
    return [(step, loss_of(step) * (1 + noise * random.normal())) for step in steps]


def gain(loss_of):
    return 1 - loss_of(1.5 * LAST) / loss_of(LAST)


@pytest.mark.parametrize(
    "shape", [(2.0, 0.5, 0.7), (1.5, 1.0, 0.3), (0.0, 3.0, 0.2), (2.0, 0.1, 2.5)]
)
def test_a_power_law_is_recognised(shape):
    found = forecast(curve(law(*shape)))
    assert found.gain == pytest.approx(gain(law(*shape)), rel=0.03)
    assert found.low <= found.gain <= found.high
    if found.limit > 0:
        assert found.high - found.low < 0.1 * found.gain
    assert found.limit == pytest.approx(shape[0], abs=0.1)


def test_nine_of_ten_intervals_hold_the_truth():
    random = np.random.default_rng(8)
    held = 0
    for seed in range(60):
        shape = law(random.uniform(1, 3), random.uniform(0.2, 1), random.uniform(0.3, 1.5))
        points, noise = int(random.integers(7, 30)), random.uniform(0.001, 0.01)
        found = forecast(curve(shape, points, noise, seed))
        held += found.low <= gain(shape) <= found.high
    assert 47 <= held <= 60


@pytest.mark.parametrize("loss_of", [lambda s: 2.0, lambda s: 2.0 + s / LAST, lambda s: 0.0])
def test_nothing_is_expected_of_a_curve_that_is_flat_or_rises(loss_of):
    found = forecast(curve(loss_of))
    assert found.gain == pytest.approx(0.0, abs=1e-9)
    assert found.high < 0.002


def test_noise_around_a_plateau_is_not_taken_for_progress():
    found = [forecast(curve(lambda s: 2.0, 20, 0.002, seed)) for seed in range(20)]
    assert sum(one.low > 0.002 for one in found) <= 2
    assert all(one.gain < 0.01 for one in found)


def test_too_little_is_not_forecast():
    whole = curve(law(2.0, 0.5, 0.7), points=5)
    assert forecast(whole[:4]) is None
    assert forecast([]) is None
    assert forecast([(5, 2.0)] * 9) is None
    assert forecast(curve(law(2.0, 0.5, 0.7)), warmup_steps=8000) is None


def test_what_is_no_number_is_passed_over():
    points = curve(law(2.0, 0.5, 0.7))
    torn = [*points[:6], (points[6][0] + 1, float("nan")), *points[6:]]
    assert forecast(torn) == forecast(points)


def test_the_beginning_of_a_run_does_not_count():
    points = curve(law(2.0, 0.5, 0.7), points=20)
    odd = [(step, 9.0 if step < 0.5 * LAST else loss) for step, loss in points]
    assert forecast(odd) == forecast(points)
    few = curve(law(2.0, 0.5, 0.7), points=8)
    odd = [(step, 9.0 if step < 0.25 * LAST else loss) for step, loss in few]
    assert forecast(odd) == forecast(few)
    assert forecast(few).points == 7


def test_a_curve_that_falls_ever_faster_is_bounded_by_a_straight_line():
    """Validation losses of a small model on Multi30k at steps 80, 90, … 160; 4.54 at 240."""
    losses = [5.4271, 5.3376, 5.3092, 5.2470, 5.2030, 5.1308, 5.0721, 5.0146, 4.9574]
    found = forecast([(80 + 10 * n, loss) for n, loss in enumerate(losses)])
    assert found.limit == 0.0
    assert found.low <= 1 - 4.5399 / 4.9574 <= found.high
    assert found.gain > 0.04
