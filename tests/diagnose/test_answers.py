"""Each verdict of each answer, both ways."""

import math
from dataclasses import replace

import msgspec
import pytest

from diagnose.made_runs import (
    BEGAN,
    CONFIG,
    PARAMETERS,
    curve,
    ended,
    healthy_run,
    now,
    saved,
    start,
    step,
    team,
)
from unisono.diagnose.diagnosis import diagnose

NAN = float("nan")


def answer(run, name, at=None):
    return diagnose(run, now() if at is None else at).answer(name)


def verdict(run, name, at=None):
    return answer(run, name, at).verdict


def settings(table, **changes):
    return {**CONFIG, table: {**CONFIG[table], **changes}}


# --- duration ---------------------------------------------------------------------------


def test_a_run_that_reached_its_limit_is_finished():
    found = answer(healthy_run(), "duration")
    assert found.verdict == "finished"
    assert found.values["seconds"] == pytest.approx(201)
    assert found.values["restarts"] == 0


def test_a_run_ended_by_a_signal_is_stopped():
    assert verdict(healthy_run(ends=(ended(reason="signal"),)), "duration") == "stopped"


def test_a_run_that_fell_silent_has_failed():
    run = healthy_run(steps=150, ends=())
    found = answer(run, "duration", BEGAN + 150 + 4000)
    assert found.verdict == "failed"
    assert "step-0000100" in found.advice


def test_a_run_that_spoke_just_now_is_running_and_says_how_long():
    run = healthy_run(steps=150, ends=())
    found = answer(run, "duration", BEGAN + 151)
    assert found.verdict == "running"
    assert found.values["seconds"] == pytest.approx(151)
    assert found.values["seconds_left"] == pytest.approx(49.5, abs=1.0)


def test_a_first_validation_may_take_long_without_a_sign_of_life():
    run = healthy_run(steps=140, ends=(), validations=(), saves=())
    assert verdict(run, "duration", BEGAN + 140 + 600) == "running"
    run = healthy_run(steps=145, ends=(), validations=(), saves=())
    assert verdict(run, "duration", BEGAN + 145 + 600) == "failed"


def test_a_limit_in_time_bounds_what_is_left():
    run = healthy_run(steps=150, ends=(), config=settings("train", max_time="3 min"))
    left = answer(run, "duration", BEGAN + 151).values["seconds_left"]
    assert left == pytest.approx(29, abs=1)


def test_restarts_are_counted_and_lost_time_is_not_invented():
    run = healthy_run(starts=(start(), start(step=100, time=BEGAN + 100.9)))
    found = answer(run, "duration")
    assert found.values["restarts"] == 1
    assert "at least" in found.summary


# --- trained ----------------------------------------------------------------------------


def falling(count, start_at=6.0, rate=0.5):
    return [2.0 + start_at * math.exp(-rate * n) for n in range(count)]


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
    assert "45 % of its highest" in high.summary


def test_patience_is_evidence():
    found = answer(healthy_run(ends=(ended(reason="patience"),)), "trained")
    assert found.values["stopped_by_patience"] is True
    assert any("no longer became better" in line for line in found.evidence)


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


def test_bleu_that_rises_while_the_loss_does_is_told():
    run = healthy_run(validations=curve([4.0, 2.6, 2.7, 2.8], [5.0, 10.0, 11.0, 12.0]))
    assert "BLEU still rose" in answer(run, "overfitting").summary


# --- devices and network ----------------------------------------------------------------


def test_devices_are_never_called_busy_without_a_power_reading():
    found = answer(healthy_run(), "devices")
    assert found.verdict == "unknown"
    assert found.values["compute_share"] == pytest.approx(0.895, abs=1e-3)
    assert "not sampled" in found.summary


def test_devices_that_wait_are_found_out():
    run = team(lambda rank, n: {"backward": 0.2, "exchange": 0.3}, ["a", "b"])
    found = answer(run, "devices")
    assert found.verdict == "waiting"
    assert found.values["waiting_share"] == pytest.approx(0.3, abs=0.01)


def test_one_process_uses_no_network():
    assert verdict(healthy_run(), "network") == "not_used"


def test_one_machine_uses_no_network_but_says_what_travelled():
    run = team(lambda rank, n: {"exchange": 0.05}, ["a"] * 4)
    found = answer(run, "network")
    assert found.verdict == "not_used"
    assert "loopback" in found.summary
    assert found.values["expected_bytes_per_step"] == 365_285_376


@pytest.mark.parametrize(
    ("exchange", "expected"), [(0.5, "bottleneck"), (0.05, "not_bottleneck")]
)
def test_between_machines_the_wire_decides(exchange, expected):
    run = team(lambda rank, n: {"backward": 0.2, "exchange": exchange}, ["a", "b"])
    found = answer(run, "network")
    assert found.verdict == expected
    assert found.values["measured_bytes_per_step"] is None
    assert found.values["share_of_step"] == pytest.approx(exchange)
    assert "not sampled" in found.summary


def test_waiting_for_a_late_rank_is_not_blamed_on_the_network():
    def parts(rank, n):
        return {"backward": 0.6 if rank else 0.1, "exchange": 0.02 if rank else 0.52}

    assert verdict(team(parts, ["a", "b"]), "network") == "not_bottleneck"


def test_without_the_other_ranks_a_slow_link_is_not_told_from_a_late_rank():
    run = team(lambda rank, n: {"backward": 0.1, "exchange": 0.6}, ["a", "b"])
    run = replace(run, ranks={0: run.ranks[0]})
    assert verdict(run, "network") == "unknown"
    assert verdict(run, "step_vs_network") == "unknown"


# --- learning rate ----------------------------------------------------------------------


def test_the_formula_has_the_numbers_of_the_run():
    found = answer(healthy_run(), "learning_rate")
    assert found.verdict == "answered"
    assert found.values["peak"] == pytest.approx(0.001)
    assert found.values["peak_step"] == 40
    assert found.values["final"] == pytest.approx(0.001 * math.sqrt(40 / 200))
    assert found.values["steps_off_formula"] == 0
    assert "never the loss" in found.summary


def test_rates_off_the_formula_are_noticed():
    steps = [step(n) for n in range(1, 201)]
    steps[99] = msgspec.structs.replace(steps[99], learning_rate=0.5)
    found = answer(healthy_run(ranks={0: tuple(steps)}), "learning_rate")
    assert found.values["steps_off_formula"] == 1
    assert any("step 100" in line for line in found.evidence)


def test_a_width_left_open_is_filled_in_from_the_model():
    schedule = {"name": "transformer", "scale": 1.0, "warmup_steps": 40, "d_model": 0}
    run = healthy_run(config={**CONFIG, "schedule": schedule})
    assert "64^-0.5" in answer(run, "learning_rate").values["formula"]


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"name": "constant", "peak": 0.001}, "stays at 0.001"),
        ({"name": "cosine", "total_steps": 500}, "half a cosine"),
        ({"name": "linear", "total_steps": 500}, "straight line to 0"),
    ],
)
def test_each_schedule_is_told_in_words(schedule, words):
    run = healthy_run(config={**CONFIG, "schedule": schedule})
    assert words in answer(run, "learning_rate").summary


def test_without_a_schedule_the_curve_is_not_explained():
    assert verdict(healthy_run(config={}), "learning_rate") == "unknown"


# --- training set, checkpoints ----------------------------------------------------------


def test_the_training_set_before_and_after():
    found = answer(healthy_run(), "training_set")
    assert found.verdict == "answered"
    assert found.values["bytes_before"] == 1_300_000
    assert found.values["lines_before"] == 10_000
    assert found.values["pairs_after"] == 9_500
    assert found.values["dropped"] == {"too_long": 100, "duplicate": 400}
    assert found.values["tokens_before"] is None


def test_without_a_manifest_the_training_set_is_unknown():
    found = answer(healthy_run(corpus={}), "training_set")
    assert found.verdict == "unknown"
    assert "corpus.json" in found.summary


def test_a_checkpoint_is_what_its_parts_weigh():
    found = answer(healthy_run(), "checkpoint_size")
    assert found.verdict == "answered"
    assert found.values["expected_bytes"] == 12 * PARAMETERS
    assert found.values["difference"] == pytest.approx(0, abs=1e-3)
    assert "NOT" not in found.summary


@pytest.mark.parametrize(("momentum", "numbers"), [(0.0, 1), (0.9, 2)])
def test_plain_sgd_keeps_fewer_numbers(momentum, numbers):
    optimizer = {"name": "sgd", "momentum": momentum}
    found = answer(healthy_run(config={**CONFIG, "optimizer": optimizer}), "checkpoint_size")
    assert found.values["numbers_per_parameter"] == numbers
    assert "NOT what it weighs" in found.summary  # the made checkpoint holds two moments


def test_files_are_read_from_the_disk_while_they_are_there(tmp_path):
    directory = tmp_path / "checkpoints" / "step-0000200"
    directory.mkdir(parents=True)
    for name, size in {"model.safetensors": 10, "manifest.json": 5}.items():
        (directory / name).write_bytes(b"x" * size)
    found = answer(healthy_run(path=tmp_path), "checkpoint_files")
    assert found.values["files"] == {"manifest.json": 5, "model.safetensors": 10}
    without_events = answer(healthy_run(path=tmp_path, saves=()), "checkpoint_files")
    assert without_events.values["name"] == "step-0000200"


def test_without_a_checkpoint_both_answers_are_unknown():
    run = healthy_run(saves=())
    assert verdict(run, "checkpoint_files") == verdict(run, "checkpoint_size") == "unknown"


def test_each_file_is_explained():
    found = answer(healthy_run(saves=(saved(200),)), "checkpoint_files")
    assert found.verdict == "answered"
    assert any("mean and variance of the gradient" in line for line in found.evidence)


# --- step time --------------------------------------------------------------------------


def test_a_step_is_the_sum_of_its_parts():
    found = answer(healthy_run(), "step_time")
    parts = found.values["parts_seconds"]
    assert sum(parts.values()) == pytest.approx(found.values["mean_seconds"])
    assert parts["backward"] == pytest.approx(0.5)
    assert parts["other"] == pytest.approx(0.1)


def test_the_first_step_does_not_spoil_the_mean():
    steps = (step(1, seconds=60.0, time=BEGAN + 1), *(step(n) for n in range(2, 201)))
    assert answer(healthy_run(ranks={0: steps}), "step_time").values["mean_seconds"] == 1.0


def test_the_late_rank_is_named_with_what_it_does_longer():
    def parts(rank, n):
        if rank:
            return {"data": 0.3, "backward": 0.1, "exchange": 0.02}
        return {"backward": 0.1, "exchange": 0.32}

    found = answer(team(parts, ["a", "b"]), "step_time")
    assert any("rank 1 on b" in line and "waiting for data" in line for line in found.evidence)


def test_steps_that_follow_the_exchange_correlate_with_it():
    def parts(rank, n):
        return {"backward": 0.1, "exchange": 0.05 * (n % 5)}

    run = team(parts, ["a", "b"])
    moved = {
        rank: tuple(msgspec.structs.replace(s, seconds=0.5 + s.exchange) for s in steps)
        for rank, steps in run.ranks.items()
    }
    found = answer(replace(run, ranks=moved), "step_vs_network")
    assert found.verdict == "answered"
    assert found.values["correlation"] == pytest.approx(1.0)
    assert found.values["waiting_seconds"] == 0.0


def test_one_process_has_nothing_to_correlate():
    found = answer(healthy_run(), "step_vs_network")
    assert found.verdict == "answered"
    assert found.values["correlation"] is None


# --- a number of processes that changed -------------------------------------------------


def test_a_run_that_went_on_with_fewer_processes_is_not_called_one_process():
    starts = (start(size=2), start(rank=1, size=2), start(step=100, time=BEGAN + 100))
    steps = tuple(step(n, exchange=0.1) for n in range(1, 201))
    run = healthy_run(starts=starts, ranks={0: steps, 1: steps[:100]})
    found = answer(run, "network")
    assert found.verdict == "not_used"
    assert "changed from start to start (2 and 1)" in found.summary
    assert verdict(run, "step_vs_network") == "unknown"
