"""What the guard calls divergence, and above all what it does not."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.train.divergence_guard import (
    EARLIEST,
    MARGIN,
    SKIPS,
    SMOOTHED_LOSSES,
    Guard,
    after_roll_back,
    after_save,
    observe,
)


def alarms(losses, guard=None, first=1):
    """Return the steps at which the guard would roll back."""
    guard, found = guard or Guard(), []
    for step, loss in enumerate(losses, start=first):
        guard, why = observe(guard, step, loss, skipped=not math.isfinite(loss))
        found += [step] if why else []
    return found


def learning(steps, start, end, halving):
    return [end + (start - end) * 0.5 ** (step / halving) for step in range(steps)]


def noisy(losses, deviation, seed):
    rng = random.Random(seed)
    return [max(0.0, loss + rng.gauss(0, deviation)) for loss in losses]


@given(st.lists(st.floats(0, 1e3), max_size=300))
def test_a_loss_that_only_falls_is_fine(losses):
    assert alarms(sorted(losses, reverse=True)) == []


@settings(max_examples=40)
@given(
    start=st.floats(4, 12),
    end=st.floats(0.2, 4),
    halving=st.integers(1, 500),
    deviation=st.floats(0, 1.0),
    seed=st.integers(0, 1000),
)
def test_noise_of_any_size_on_a_learning_curve_is_fine(start, end, halving, deviation, seed):
    assert alarms(noisy(learning(500, start, end, halving), deviation, seed)) == []


@settings(max_examples=40)
@given(st.floats(2, 6), st.integers(0, 1000))
def test_single_bad_batches_are_fine(level, seed):
    rng = random.Random(seed)
    usual = [level + rng.random() / 10 for _ in range(300)]
    losses = [20 * loss if rng.random() < 0.05 else loss for loss in usual]
    assert alarms(losses) == []


def test_a_slow_climb_of_a_tenth_is_a_matter_of_the_data():
    assert alarms(noisy([4 + 0.4 * step / 3000 for step in range(3000)], 0.1, 1)) == []


@pytest.mark.parametrize("length", [5, 50, 300])
def test_waves_of_a_twentieth_are_fine_even_without_noise(length):
    waves = [4 + 0.2 * math.sin(step / length) for step in range(1000)]
    assert alarms(noisy(waves, 0.001, 2)) == []


@given(st.integers(EARLIEST, 200), st.floats(1.5, 1e6), st.integers(0, 100))
def test_a_jump_is_noticed_within_a_few_updates(before, rise, seed):
    losses = noisy([2.0] * before + [2.0 + rise] * SMOOTHED_LOSSES, 0.1, seed)
    assert before + SMOOTHED_LOSSES // 2 <= alarms(losses)[0] <= before + SMOOTHED_LOSSES


@pytest.mark.parametrize("updates", [30, 100, 300, 1000])
def test_a_rise_is_noticed_however_long_it_takes(updates):
    rising = [3 + 4 * step / updates for step in range(updates)]
    assert alarms(noisy([3.0] * 200 + rising + [7.0] * 200, 0.1, 5))


@given(st.floats(2.1, 1e3), st.floats(0, 0.5), st.integers(0, 100))
def test_an_explosion_in_the_first_updates_is_noticed_whatever_its_noise(times, share, seed):
    rng = random.Random(seed)
    exploded = [8.0 * times * (1 + share * rng.uniform(-0.05, 1)) for _ in range(EARLIEST)]
    assert alarms([8.0, *exploded])[0] == EARLIEST


def test_a_rise_in_the_first_updates_that_never_falls_again_is_noticed():
    assert alarms(noisy([8.0, *[10.5] * EARLIEST], 0.05, 1))[0] == EARLIEST
    assert alarms(noisy([8.0, *[8.5] * EARLIEST], 0.05, 1)) == []


def test_updates_that_are_not_finite_are_counted_in_a_row():
    fine, not_finite = [2.0], [math.nan]
    assert alarms((not_finite * (SKIPS - 1) + fine) * 5) == []
    assert alarms(fine * 3 + not_finite * SKIPS) == [3 + SKIPS]


def after(guard, losses, first):
    for step, loss in enumerate(losses, start=first):
        guard, _ = observe(guard, step, loss, skipped=not math.isfinite(loss))
    return guard


def test_a_checkpoint_is_safe_when_the_run_has_stayed_calm_after_it():
    guard = after(Guard(), [3.0] * 50, 1)
    guard = after_save(guard, 50, 40)
    guard = after(guard, [3.0] * (MARGIN - 1), 51)
    assert guard.safe == (0, 0)
    assert after(guard, [3.0], 50 + MARGIN).safe == (50, 40)
    assert after(guard, [math.nan], 50 + MARGIN).safe == (0, 0)


@given(st.integers(1, 60), st.integers(1, 20))
def test_no_checkpoint_after_the_spike_began_is_ever_safe(onset, every):
    guard, step = Guard(), 0
    while True:
        step += 1
        guard, why = observe(guard, step, 3.0 if step < 60 + onset else 9.0, skipped=False)
        if why:
            break
        if step % every == 0:
            guard = after_save(guard, step, 0)
    # The update before the first bad loss may be the one that did the harm.
    assert guard.safe[0] < 60 + onset - 1
    assert guard.safe[0] >= 60 + onset - 2 * (MARGIN + every) - SMOOTHED_LOSSES


def test_after_a_roll_back_the_checkpoint_gone_back_to_is_the_safe_one():
    guard = after_save(Guard(skips=SKIPS, safe=(5, 5)), 9, 5)
    assert after_roll_back(guard, 7, 6) == Guard(safe=(7, 6))
