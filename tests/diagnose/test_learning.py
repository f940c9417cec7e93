"""Trained, overfitting, diverged: with the losses of sentences and the clean sample at hand."""

import math

import msgspec
import numpy as np
import pytest

from diagnose.made_runs import (
    CONFIG,
    curve,
    healthy_run,
    now,
    scored,
    step,
    with_clean,
    with_sentences,
)
from unisono.diagnose.diagnosis import diagnose

FLAT_CLEAN = [2.0] * 9


def answer(run, name):
    return diagnose(run, now()).answer(name)


def run_of(losses, clean=None, sentences=1000, scatter=0.02, **changes):
    """A run with these validation losses, and those of its sentences and clean sample."""
    made = curve(losses)
    if clean is not None:
        made = with_clean(made, clean)
    kept = with_sentences(made, sentences, scatter)
    return healthy_run(validations=made, sentence_losses=kept, **changes)


def rates(rate_of):
    steps = (msgspec.structs.replace(step(n), learning_rate=rate_of(n)) for n in range(1, 201))
    return {0: tuple(steps)}


def power_law(limit, height, exponent, points=10):
    return [limit + height * (n / points) ** -exponent for n in range(1, points + 1)]


# --- trained ----------------------------------------------------------------------------

JAGGED = [2.60, 2.50, 2.53, 2.49, 2.525, 2.485, 2.52, 2.47, 2.51]


def test_a_gain_that_the_scatter_hides_is_proved_by_pairs():
    alone = answer(healthy_run(validations=curve(JAGGED)), "trained")
    assert alone.verdict == "unknown"
    assert "may still lower it by up to" in alone.summary
    assert any("scatter of the curve" in line for line in alone.evidence)
    found = answer(run_of(JAGGED), "trained")
    assert found.verdict == "no"
    assert found.values["gain_of_last_third_p"] < 0.05
    assert any("paired bootstrap" in line for line in found.evidence)


def test_a_gain_on_few_sentences_may_be_chance():
    found = answer(run_of(JAGGED, sentences=25, scatter=0.4), "trained")
    assert found.verdict == "unknown"
    assert found.values["gain_of_last_third_p"] >= 0.05
    assert "may be chance" in found.summary


def test_a_gain_that_is_proved_but_tiny_is_the_end():
    losses = [2.6, 2.52, 2.505, 2.5, 2.499, 2.4985, 2.498, 2.4975, 2.497]
    found = answer(run_of(losses, sentences=3000, scatter=0.005), "trained")
    assert found.values["gain_of_last_third_p"] < 0.05
    assert found.verdict == "yes"


def test_what_more_steps_would_bring_is_said_with_its_interval():
    found = answer(run_of(power_law(2.0, 0.5, 0.7)), "trained")
    values = found.values
    true = 0.5 * (1 - 1.5**-0.7) / 2.5
    assert found.verdict == "no"
    assert values["expected_gain_of_half_more"] == pytest.approx(true, rel=0.05)
    assert values["expected_gain_low"] <= true * 1.01
    assert values["expected_gain_high"] >= true * 0.99
    assert "50 % more steps would lower it by about 4.9 % (90 % interval" in found.summary


def test_a_flat_end_is_not_enough_where_more_steps_may_bring_something():
    found = answer(healthy_run(validations=curve(JAGGED)), "trained")
    assert found.values["expected_gain_high"] > 0.005
    assert found.verdict == "unknown"
    # At a rate that has run out, nothing more would come.
    spent = rates(lambda n: 0.001 * (1 - n / 201))
    assert (
        answer(healthy_run(validations=curve(JAGGED), ranks=spent), "trained").verdict == "yes"
    )
    few = answer(healthy_run(validations=curve([2.6, 2.5, 2.5, 2.5])), "trained")
    assert few.verdict == "unknown"
    assert "too few validations" in few.summary


def scored_curve(scores, half):
    made = (v for v in curve([2.5] * len(scores), scores))
    return tuple(
        msgspec.structs.replace(v, bleu_low=v.bleu - half, bleu_high=v.bleu + half)
        for v in made
    )


def test_a_rise_of_bleu_counts_only_beyond_its_interval():
    scores = [20.0] * 6 + [20.3, 20.4, 20.5]
    sure = healthy_run(validations=scored_curve(scores, half=0.1))
    assert answer(sure, "trained").verdict == "no"
    found = answer(healthy_run(validations=scored_curve(scores, half=0.9)), "trained")
    assert found.verdict == "yes"
    assert any("a rise below 1.3 may be chance" in line for line in found.evidence)


@pytest.mark.parametrize(
    ("loss", "bleu"), [(8.98, 0.0), (8.98, -1.0), (6.2, 0.2)], ids=["nothing", "-", "counts"]
)
def test_a_model_that_learnt_nothing_is_not_trained(loss, bleu):
    made = curve([loss] * 10, [bleu] * 10)
    found = answer(healthy_run(validations=made), "trained")
    assert found.verdict == "no"
    assert "before the model had learnt" in found.summary
    assert "learning rate" in found.advice


def test_without_a_vocabulary_bleu_alone_says_that_nothing_was_learnt():
    for bleu, expected in ((0.0, "no"), (20.0, "yes"), (-1.0, "yes")):
        made = curve([8.98] * 10, [bleu] * 10)
        assert answer(healthy_run(validations=made, corpus={}), "trained").verdict == expected


def test_a_curve_that_will_bring_too_little_is_trained_though_it_still_fell():
    losses = power_law(2.5, 0.006, 2.0)
    found = answer(run_of(losses, sentences=3000, scatter=0.002), "trained")
    assert found.values["gain_of_last_third"] > 0.0015
    assert found.values["expected_gain_high"] < 0.005
    assert found.verdict == "yes"


def test_a_rate_that_has_run_out_makes_more_steps_useless():
    spent = rates(lambda n: 0.001 * (1 - n / 201))
    found = answer(run_of(power_law(2.0, 0.5, 0.7), ranks=spent), "trained")
    assert found.verdict == "no"
    assert "would gain nothing: the learning rate is close to 0" in found.summary
    assert "new run" in found.advice


def test_a_fit_before_the_schedule_came_down_says_so():
    cosine = {"name": "cosine", "peak": 1e-3, "total_steps": 1000, "warmup_steps": 10}
    run = run_of(power_law(2.0, 0.5, 0.7), config={**CONFIG, "schedule": cosine})
    lines = answer(run, "trained").evidence
    assert any("has yet to fall until step 1,000" in line for line in lines)


def test_a_run_past_its_best_is_told_so():
    found = answer(run_of([3.0, 2.6, 2.5, 2.5, 2.55, 2.6, 2.65, 2.7]), "trained")
    assert found.verdict == "yes"
    assert "lowest (2.500) at step 60" in found.summary
    assert "more updates of this run do not help" in found.advice
    assert any("no longer falls" in line for line in found.evidence)


@pytest.mark.parametrize(
    "losses",
    [
        [2.5] * 9,
        [2.5, 3.0] * 5,
        [3.0, math.nan, 2.9, 2.8, 2.8, 2.8],
        [2.5, 2.6, 2.7, 2.8, 2.9],
        [0.0] * 6,
        [8.0, 5.0, 3.0, 2.0],
    ],
    ids=["flat", "zigzag", "a NaN within", "rising", "zeros", "few"],
)
def test_odd_curves_are_answered(losses):
    run = run_of(losses, clean=losses)
    for name in ("trained", "overfitting"):
        found = answer(run, name)
        assert found.verdict in ("yes", "no", "unknown")
        assert "nan" not in found.summary.lower()


def test_bleu_is_told_with_interval_and_signature():
    more = {"bleu_low": 19.0, "bleu_high": 21.5, "bleu_signature": "nrefs:1|bs:1000"}
    made = tuple(msgspec.structs.replace(v, **more) for v in curve([2.5] * 9, [20.0] * 9))
    test = msgspec.structs.replace(scored(bleu=22.0), bleu_low=21.0, bleu_high=23.0)
    found = answer(healthy_run(validations=made, tests=(test,)), "trained")
    assert found.values["bleu_low"] == 19.0
    assert found.values["bleu_signature"] == "nrefs:1|bs:1000"
    line = next(line for line in found.evidence if line.startswith("validation BLEU"))
    assert "95 % interval 19.00 to 21.50 (nrefs:1|bs:1000)" in line
    headline = diagnose(healthy_run(validations=made, tests=(test,)), now()).headline
    assert "test BLEU 22.0 ± 1.0" in headline


# --- overfitting ------------------------------------------------------------------------

TURNED = [2.8, 2.6, 2.52, 2.5, 2.5, 2.503, 2.504, 2.506, 2.508]
LEARNT = [2.7, 2.5, 2.3, 2.1, 2.0, 1.95, 1.9, 1.85, 1.8]


def test_a_small_turn_is_proved_by_pairs():
    alone = answer(healthy_run(validations=curve(TURNED)), "overfitting")
    assert alone.verdict == "no"
    found = answer(run_of(TURNED, LEARNT, sentences=3000, scatter=0.01), "overfitting")
    assert found.verdict == "yes"
    assert found.values["since_step"] == 80
    assert found.values["rise_p"] < 0.01
    assert found.values["training_loss_is_clean"] is True
    assert "the validation loss is 0.7080 higher" in " ".join(found.evidence)


def test_a_turn_that_may_be_chance_is_none():
    losses = [2.8, 2.6, 2.5, 2.52, 2.525, 2.53]
    clean = LEARNT[:6]
    assert answer(run_of(losses, clean, 3000), "overfitting").verdict == "yes"
    assert answer(run_of(losses, clean, 30, scatter=0.5), "overfitting").verdict == "no"


def test_one_proved_rise_is_not_enough():
    losses = [2.8, 2.65, 2.57, 2.53, 2.51, 2.5, 2.5, 2.56]
    found = answer(run_of(losses, LEARNT[:8]), "overfitting")
    assert found.verdict == "unknown"
    assert found.values["worse_in_a_row"] == 1


def test_the_clean_sample_counts_not_the_loss_of_the_updates():
    losses = [2.8, 2.6, 2.5, 2.55, 2.6, 2.65]
    worse = [2.7, 2.5, 2.4, 2.45, 2.5, 2.55]  # and the loss of the updates falls
    found = answer(run_of(losses, worse), "overfitting")
    assert found.verdict == "no"
    assert "so did the training loss" in found.summary
    assert answer(run_of(losses), "overfitting").verdict == "yes"


def test_wobble_between_evaluations_is_not_overfitting():
    """Weights that wobble differ for every sentence, and still nothing was learnt by heart."""
    random = np.random.default_rng(4)
    alarms = 0
    for seed in range(20):
        course = [2.4 + 0.6 * math.exp(-n / 1.5) for n in range(14)]
        losses = [loss * (1 + 0.003 * random.normal()) for loss in course]
        clean = [loss - 0.2 - 0.001 * n for n, loss in enumerate(course)]
        made = with_clean(curve(losses, every=14), clean)
        kept = with_sentences(made, 1000, 0.02, seed)
        run = healthy_run(validations=made, sentence_losses=kept)
        alarms += answer(run, "overfitting").verdict == "yes"
    assert alarms <= 1


def test_the_checkpoint_to_keep_is_named_if_it_is_there(tmp_path):
    losses = [2.8, 2.6, 2.5, 2.55, 2.6, 2.65]
    directory = tmp_path / "checkpoints"
    (directory / "step-0000060").mkdir(parents=True)
    found = answer(run_of(losses, LEARNT[:6], path=tmp_path), "overfitting")
    assert "`checkpoints/step-0000060`" in found.advice
    (directory / "step-0000060").rename(directory / "step-0000040")
    found = answer(run_of(losses, LEARNT[:6], path=tmp_path), "overfitting")
    assert "no longer in `checkpoints`" in found.advice


# --- diverged ---------------------------------------------------------------------------


def breaking(loss_of, norm_of=lambda n: 0.7):
    steps = (step(n, loss=loss_of(n), gradient_norm=norm_of(n)) for n in range(1, 201))
    return healthy_run(validations=(), ranks={0: tuple(steps)})


def test_a_breakdown_is_dated_with_what_came_before():
    run = breaking(lambda n: 3.0 if n < 120 else 7.0, lambda n: 14.0 if n == 117 else 0.7)
    found = answer(run, "trained")
    assert found.verdict == "diverged"
    assert found.values["began_step"] == 120
    assert "It began at step 120" in found.summary
    assert "rose from 3.00 to 7.00" in found.summary
    assert "14 at step 117, 20 times its median of 0.7" in found.summary
    assert "the learning rate was 0.000577, 58 % of its highest" in found.summary


def test_updates_that_were_lost_before_are_counted():
    def loss_of(n):
        return math.nan if n in (110, 112, 115) else 3.0 if n < 120 else 7.0

    found = answer(breaking(loss_of), "trained")
    assert found.values["began_step"] == 120
    assert "of the 50 updates before, 3 had no finite loss or gradient" in found.summary
    assert "the gradient norm had shown nothing" in found.summary


def test_a_loss_that_stops_being_a_number_is_dated():
    found = answer(breaking(lambda n: 3.0 if n < 150 else math.nan), "trained")
    assert found.verdict == "diverged"
    assert found.values["began_step"] == 150
    assert "neither loss nor gradient was a finite number" in found.summary


def test_a_rise_before_the_loss_was_lost_is_where_it_began():
    def loss_of(n):
        return 3.0 if n < 140 else 3.0 + 0.2 * (n - 139) if n < 160 else math.nan

    found = answer(breaking(loss_of), "trained")
    assert 140 <= found.values["began_step"] <= 142


def test_a_noisy_course_does_not_date_a_breakdown_too_early():
    random = np.random.default_rng(1)
    noise = random.normal(size=201)
    run = breaking(lambda n: (3.0 if n < 120 else 6.0) + 0.1 * noise[n])
    assert 118 <= answer(run, "trained").values["began_step"] <= 121


def test_a_breakdown_in_the_warm_up_says_that_the_rate_was_rising():
    run = breaking(lambda n: 6.0 if n < 30 else 9.0)
    found = answer(run, "trained")
    assert found.values["began_step"] == 30
    assert "still rising" in found.summary


def test_a_spike_that_the_run_got_over_is_not_where_it_began():
    def loss_of(n):
        return 8.0 if 60 <= n < 70 or n >= 150 else 3.0

    assert answer(breaking(loss_of), "trained").values["began_step"] == 150


# --- learning rate ----------------------------------------------------------------------


def test_the_learning_rate_is_explained_with_the_numbers_of_the_run():
    found = answer(healthy_run(), "learning_rate")
    assert "rose to its peak of 0.001 at step 40, the end of the warm-up" in found.summary
    assert "At step 40 it is 0.001, at step 160 0.0005." in found.summary
    line = found.evidence[0]
    assert "`inverse_sqrt` with peak = 0.001, warmup_steps = 40" in line
    assert "lr = 0.001 · min(step / 40, sqrt(40 / step))" in line
