"""Trained, overfitting, diverged: each verdict, both ways."""

import math

import msgspec
import pytest

from diagnose.asking import answer, verdict
from diagnose.made_runs import (
    CONFIG,
    curve,
    ended,
    healthy_run,
    step,
    validated,
)

NAN = float("nan")


# --- trained ----------------------------------------------------------------------------


def falling(count, start_at=6.0, rate=0.5):
    return [2.0 + start_at * math.exp(-rate * n) for n in range(count)]


def test_the_best_of_two_validations_is_told_though_nothing_follows_from_it():
    run = healthy_run(validations=(validated(100, 2.5), validated(200, 2.25)))
    found = answer(run, "overfitting")
    assert found.verdict == "unknown"
    assert (found.values["best_step"], found.values["best_loss"]) == (200, 2.25)
    none = answer(healthy_run(validations=()), "overfitting")
    assert none.values["best_loss"] is None


def test_three_validations_are_too_few():
    run = healthy_run(validations=curve([4.0, 3.0, 2.9]))
    assert verdict(run, "trained") == "unknown"


def test_a_loss_that_still_falls_is_not_trained():
    found = answer(healthy_run(validations=curve(falling(8))), "trained")
    assert found.verdict == "no"
    assert found.values["gain_of_last_third"] > 0.05
    assert "max_steps" in found.advice


def test_more_updates_are_advised_only_while_the_rate_has_something_left():
    found = answer(healthy_run(validations=curve(falling(8))), "trained")
    assert "start the same command again" in found.advice
    steps = [
        msgspec.structs.replace(step(n), learning_rate=0.001 if n < 150 else 1e-6)
        for n in range(1, 201)
    ]
    run = healthy_run(validations=curve(falling(8)), ranks={0: tuple(steps)})
    found = answer(run, "trained")
    assert found.verdict == "no"
    assert "new run" in found.advice
    assert "start the same command" not in found.advice


def test_a_flat_tail_is_trained():
    losses = [*falling(5), 2.302, 2.299, 2.301, 2.3, 2.302, 2.3, 2.301]
    assert verdict(healthy_run(validations=curve(losses)), "trained") == "yes"


def test_bleu_that_still_rises_is_not_trained():
    scores = [10.0, 14.0, 16.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0]
    found = answer(healthy_run(validations=curve([2.5] * 9, scores)), "trained")
    assert found.verdict == "no"
    assert "BLEU" in found.summary
    assert "loss" not in found.summary


def test_a_plateau_before_the_schedule_came_down_is_not_judged():
    cosine = {"name": "cosine", "peak": 1e-3, "total_steps": 1000, "warmup_steps": 10}
    run = healthy_run(config={**CONFIG, "schedule": cosine})
    assert verdict(run, "trained") == "unknown"
    high = answer(healthy_run(), "trained")
    assert high.verdict == "yes"
    assert "45 % of its peak" in high.summary


def test_patience_is_evidence():
    found = answer(healthy_run(ends=(ended(reason="patience"),)), "trained")
    assert found.values["stopped_by_patience"] is True
    assert any("no longer improved" in line for line in found.evidence)


def diverging_steps(worst=7.0):
    return {0: tuple(step(n, loss=3.0 if n < 120 else worst) for n in range(1, 201))}


@pytest.mark.parametrize(
    "changes",
    [
        {"validations": curve([4.0, 3.0, 2.9, 2.8, NAN])},
        {
            "validations": (),
            "ranks": {
                0: (
                    *(step(n) for n in range(1, 50)),
                    *(step(n, loss=NAN) for n in range(50, 60)),
                )
            },
        },
        {"validations": curve([4.0, 3.0, 2.9, 6.5, 6.9]), "ranks": diverging_steps()},
        {"validations": (), "ranks": diverging_steps()},
    ],
    ids=["validation NaN", "training NaN", "both rose", "training rose"],
)
def test_a_broken_run_has_diverged(changes):
    assert verdict(healthy_run(**changes), "trained") == "diverged"


def late_break(updates, worst=9.0):
    """The training loss is 2 but for the last updates."""
    losses = [2.0 if n <= 200 - updates else worst for n in range(1, 201)]
    return {0: tuple(step(n, loss=loss) for n, loss in enumerate(losses, start=1))}


@pytest.mark.parametrize("validations", [[2.5] * 9 + [9.0], [2.5] * 9])
def test_a_run_that_broke_down_since_the_last_validation_but_one_has_diverged(validations):
    run = healthy_run(validations=curve(validations), ranks=late_break(15))
    found = answer(run, "trained")
    assert (found.verdict, found.values["began_step"]) == ("diverged", 186)


def test_a_bad_end_that_may_pass_is_not_called_divergence():
    # One bad validation while training goes on as ever; or a spike of a few updates.
    bad = curve([2.5] * 9 + [9.0])
    assert verdict(healthy_run(validations=bad), "trained") != "diverged"
    run = healthy_run(validations=curve([2.5] * 10), ranks=late_break(15, worst=2.3))
    assert verdict(run, "trained") == "yes"
    run = healthy_run(validations=curve([2.5] * 9), ranks=late_break(5))
    assert verdict(run, "trained") == "yes"


def test_overfitting_is_not_divergence():
    rising = [4.0, 3.0, 2.6, 2.5, 2.8, 3.2, 3.6, 4.0]
    run = healthy_run(validations=curve(rising))
    assert verdict(run, "trained") == "yes"
    assert verdict(run, "overfitting") == "yes"


# --- overfitting ------------------------------------------------------------------------


def test_overfitting_is_dated_to_the_best_validation():
    found = answer(
        healthy_run(validations=curve([4.0, 3.0, 2.6, 2.7, 2.8, 2.9])), "overfitting"
    )
    assert found.verdict == "yes"
    assert found.values["since_step"] == 60
    assert "step 60" in found.advice


def test_a_loss_at_its_best_is_not_overfitting():
    found = answer(healthy_run(validations=curve([4.0, 3.0, 2.6, 2.5])), "overfitting")
    assert found.verdict == "no"
    assert found.values["since_step"] is None


def test_noise_is_not_overfitting():
    losses = [4.0, 3.0, 2.5, 2.503, 2.501, 2.506, 2.502, 2.505]
    assert verdict(healthy_run(validations=curve(losses)), "overfitting") == "no"


def test_the_margin_grows_with_the_noise_of_the_curve():
    smooth = [4.0, 3.0, 2.6, 2.49, 2.492, 2.496, 2.502, 2.505, 2.506]
    assert verdict(healthy_run(validations=curve(smooth)), "overfitting") == "yes"
    noisy = [4.0, 3.0, 2.6, 2.5, 2.53, 2.49, 2.52, 2.505, 2.506]
    assert verdict(healthy_run(validations=curve(noisy)), "overfitting") == "no"


def test_one_worse_validation_may_be_chance():
    assert (
        verdict(healthy_run(validations=curve([4.0, 3.0, 2.6, 2.8])), "overfitting")
        == "unknown"
    )


def test_worse_validations_without_progress_in_training_are_not_overfitting():
    steps = tuple(step(n, loss=3.0 + 0.0005 * n) for n in range(1, 201))
    run = healthy_run(validations=curve([3.0, 2.6, 2.7, 2.75]), ranks={0: steps})
    assert verdict(run, "overfitting") == "no"


def test_bleu_and_chrf_that_prefer_different_validations_are_shown_to_disagree():
    def told(*chrf):
        rows = zip((20.0, 26.0, 25.0), chrf, strict=True)
        made = [validated(100 * n, 2.5, bleu, chrf=c) for n, (bleu, c) in enumerate(rows, 1)]
        found = answer(healthy_run(validations=tuple(made)), "trained")
        return [line for line in found.evidence if "the metrics disagree" in line]

    [line] = told(40.0, 50.0, 51.0)
    assert "BLEU is highest at step 200 (26.00, there chrF 50.00)" in line
    assert "chrF at step 300 (51.00, there BLEU 25.00)" in line
    assert told(40.0, 51.0, 50.0) == []
    assert told(-1.0, -1.0, -1.0) == []  # runs of before chrF was recorded


def test_bleu_that_rises_while_the_loss_does_is_told():
    run = healthy_run(validations=curve([4.0, 2.6, 2.7, 2.8], [5.0, 10.0, 11.0, 12.0]))
    assert "BLEU still rose" in answer(run, "overfitting").summary
