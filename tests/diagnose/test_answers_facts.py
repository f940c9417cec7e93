"""Learning rate, training set and checkpoints, told with their numbers."""

import math

import msgspec
import pytest

from diagnose.asking import answer, verdict
from diagnose.made_runs import (
    CONFIG,
    PARAMETERS,
    healthy_run,
    saved,
    step,
)

# --- learning rate ----------------------------------------------------------------------


def test_the_formula_has_the_numbers_of_the_run():
    found = answer(healthy_run(), "learning_rate")
    assert found.verdict == "answered"
    assert found.values["peak"] == pytest.approx(0.001)
    assert found.values["peak_step"] == 40
    assert found.values["final"] == pytest.approx(0.001 * math.sqrt(40 / 200))
    assert found.values["steps_off_formula"] == 0
    assert "never on the loss" in found.summary


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
        ({"name": "linear", "total_steps": 500}, "linearly to 0"),
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
    assert "NOT explain its size" in found.summary  # the made checkpoint holds two moments


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
