"""Killed and continued is the same as never stopped, to the last bit, on one to four ranks."""

import signal
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from support.tiny import tiny_settings
from unisono.comm.group import Solo
from unisono.records.events import Ended, Saved, StepTaken, Validated
from unisono.records.view import read_run
from unisono.train.job import run_with

STEPS = 12


def train_in_parts(comm, home, run, stops, tables=None):
    """Train to each of `stops` in turn, as if the process had ended there."""
    import torch

    torch.set_num_threads(1)
    steps = []
    for stop in stops:
        settings = tiny_settings(
            Path(home), run, **{**(tables or {}), "train": {"max_steps": stop}}
        )
        events = list(run_with(comm, settings))
        steps += [event.step for event in events if isinstance(event, StepTaken)]
    return steps


def final_state(run, step=STEPS):
    path = Path(run) / "checkpoints" / f"step-{step:07d}"
    return {
        name: load_file(path / name) for name in ("model.safetensors", "optimizer.safetensors")
    }


def assert_identical(one, other):
    for file, tensors in one.items():
        assert tensors.keys() == other[file].keys()
        for name, value in tensors.items():
            assert value.tobytes() == other[file][name].tobytes(), f"{file}: {name}"


# Eight updates make an epoch of the tiny corpus: these stop within one, and at its very end.
CASES = [(STEPS, [5, STEPS]), (STEPS, [1, 2, 7, STEPS]), (33, [8, 9, 24, 33])]


def link_corpus(home, tmp_path):
    (tmp_path / "corpus").symlink_to(Path(home) / "corpus")
    (tmp_path / "text").symlink_to(Path(home) / "text")
    return tmp_path


@pytest.mark.parametrize(("last", "stops"), CASES)
def test_alone(corpus_home, tmp_path, last, stops):
    home = link_corpus(corpus_home, tmp_path)
    whole = train_in_parts(Solo(), home, "whole", [last])
    parts = train_in_parts(Solo(), home, "parts", stops)
    assert whole == parts == list(range(1, last + 1))
    assert_identical(final_state(home / "whole", last), final_state(home / "parts", last))


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("ranks", "strategy"), [(4, "ddp"), (2, "all_reduce")], indirect=["ranks"]
)
def test_on_several_ranks(ranks, corpus_home, tmp_path, strategy):
    home = link_corpus(corpus_home, tmp_path)
    tables = {"sync": {"strategy": strategy, "bucket_mb": 0.005}}
    ranks.run(train_in_parts, str(home), "whole", [STEPS], tables)
    ranks.run(train_in_parts, str(home), "parts", [3, 7, STEPS], tables)
    assert_identical(final_state(home / "whole"), final_state(home / "parts"))


@pytest.mark.ranks
def test_continued_on_another_number_of_processes(ranks, corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    sgd = {"optimizer": {"name": "sgd"}, "schedule": {"name": "constant", "peak": 0.5}}
    train_in_parts(Solo(), home, "whole", [STEPS], sgd)
    train_in_parts(Solo(), home, "parts", [6], sgd)
    ranks.run(train_in_parts, str(home), "parts", [STEPS], sgd)
    one = final_state(home / "whole")["model.safetensors"]
    other = final_state(home / "parts")["model.safetensors"]
    for name, value in one.items():
        assert abs(value - other[name]).max() < 2e-5, name
    assert [s.size for s in read_run(home / "parts").starts if s.rank == 0] == [1, ranks.size]


def test_a_signal_stops_after_the_step_and_saves(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    settings = tiny_settings(home, "run")
    events = []
    for event in run_with(Solo(), settings):
        events.append(event)
        if isinstance(event, StepTaken) and event.step == 2:
            signal.raise_signal(signal.SIGTERM)
    assert isinstance(events[-1], Ended)
    assert events[-1].reason == "signal"
    assert events[-1].step == 3
    assert isinstance(events[-2], Saved)
    train_in_parts(Solo(), home, "run", [STEPS])
    train_in_parts(Solo(), home, "whole", [STEPS])
    assert_identical(final_state(home / "whole"), final_state(home / "run"))


def test_a_request_to_save_saves_and_goes_on(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    saved = []
    for event in run_with(Solo(), tiny_settings(home, "run")):
        if isinstance(event, StepTaken) and event.step == 1:
            signal.raise_signal(signal.SIGUSR1)
        saved += [event.step] if isinstance(event, Saved) else []
    assert saved[0] == 2
    assert saved[-1] == STEPS


def test_a_finished_run_has_nothing_left_to_do(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    train_in_parts(Solo(), home, "run", [STEPS])
    before = final_state(home / "run")
    assert train_in_parts(Solo(), home, "run", [STEPS]) == []
    assert_identical(before, final_state(home / "run"))


@pytest.mark.ranks
def test_scores_do_not_depend_on_the_number_of_processes(ranks, corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    train_in_parts(Solo(), home, "alone", [STEPS])
    (home / "many").mkdir()
    ranks.run(train_in_parts, str(home), "many/run", [STEPS])
    alone, many = read_run(home / "alone"), read_run(home / "many" / "run")
    assert (
        [v.step for v in alone.validations] == [v.step for v in many.validations] == [5, 10, 12]
    )
    for one, other in zip(alone.validations, many.validations, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-4)
        assert one.sentences == other.sentences == 20
        assert isinstance(one, Validated)
