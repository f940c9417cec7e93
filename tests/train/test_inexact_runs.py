"""Runs whose exchange keeps something between updates: continued, resized, rolled back."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from test_resume import STEPS, assert_identical, final_state, link_corpus, train_in_parts

from support.exchanges import exchange, new_model, residual_of
from support.tiny import tiny_settings
from unisono.comm.group import Solo
from unisono.comm.strategies.compressed import Compressed
from unisono.errors import ConfigError
from unisono.records.events import Warned
from unisono.records.view import read_run
from unisono.train.averages import Averages
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync
from unisono.train.divergence_guard import Guard
from unisono.train.job import run_with
from unisono.train.progress import Progress

# Two processes: what is summed on three or four is shown in tests/comm.
pytestmark = [pytest.mark.ranks, pytest.mark.parametrize("ranks", [2], indirect=True)]

COMMON = {"bucket_mb": 0.005, "check_weights_every_steps": 1}
KEEPING = {
    "4 bits": {"strategy": "compressed", "bits": 4},
    "powersgd": {"strategy": "powersgd", "low_rank": 2, "warmup_steps": 2},
    "diloco": {
        "strategy": "diloco",
        "bits": 4,
        "local_steps": 3,
        "warmup_steps": 2,
        "outer_momentum": 0.3,
    },
}


def tables_of(bits, **more):
    return {"sync": {**COMMON, "strategy": "compressed", "bits": bits}, **more}


def exchange_state(run, step=STEPS):
    path = Path(run) / "checkpoints" / f"step-{step:07d}"
    return load_file(path / "exchange.safetensors")


@pytest.mark.parametrize("keeping", KEEPING)
def test_continued_is_never_stopped_to_the_last_bit(ranks, corpus_home, tmp_path, keeping):
    home, tables = link_corpus(corpus_home, tmp_path), {"sync": {**COMMON, **KEEPING[keeping]}}
    ranks.run(train_in_parts, str(home), "whole", [STEPS], tables)
    ranks.run(train_in_parts, str(home), "parts", [4, 5, 8, STEPS], tables)
    one, other = final_state(home / "whole"), final_state(home / "parts")
    one["exchange"], other["exchange"] = (
        exchange_state(home / "whole"),
        exchange_state(home / "parts"),
    )
    for file, tensors in one.items():
        assert tensors.keys() == other[file].keys()
        for name, value in tensors.items():
            assert value.tobytes() == other[file][name].tobytes(), f"{file}: {name}"
    assert any(value.any() for value in one["exchange"].values())


def test_more_bits_are_closer_to_the_exact_run(ranks, corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    sgd = {"optimizer": {"name": "sgd"}, "schedule": {"name": "constant", "peak": 0.5}}
    sgd["model"] = {"tied_embeddings": False}  # so that nothing is late
    train_in_parts(Solo(), home, "exact", [STEPS], sgd)
    exact = final_state(home / "exact")["model.safetensors"]
    off = {}
    for bits in (16, 8, 4):
        ranks.run(train_in_parts, str(home), f"packed-{bits}", [STEPS], tables_of(bits, **sgd))
        found = final_state(home / f"packed-{bits}")["model.safetensors"]
        off[bits] = max(float(abs(value - found[name]).max()) for name, value in exact.items())
    assert off[16] < 2e-4
    assert off[16] < off[8] < off[4] < 0.1


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_local_updates_take_a_rate_of_their_own(ranks, corpus_home, tmp_path, optimizer):
    home = link_corpus(corpus_home, tmp_path)
    for rate in (0.0, 1.0, 1.2):
        sync = {**COMMON, **KEEPING["diloco"], "local_rate": rate}
        tables = {"sync": sync, "optimizer": {"name": optimizer}}
        ranks.run(train_in_parts, str(home), f"{rate}", [STEPS], tables)
    usual, one, other = (final_state(home / f"{rate}") for rate in (0.0, 1.0, 1.2))
    if optimizer == "sgd":
        assert_identical(usual, one)
    for different in (other,) if optimizer == "sgd" else (one, other):
        found = different["model.safetensors"]
        assert any(
            value.tobytes() != found[name].tobytes()
            for name, value in usual["model.safetensors"].items()
        )
    # What is told is the schedule's rate.
    assert (
        len(
            {s.learning_rate for run in ("0.0", "1.2") for s in read_run(home / run).steps[-1:]}
        )
        == 1
    )


def test_a_run_goes_on_alone_and_then_with_others_again(ranks, corpus_home, tmp_path):
    home, tables = link_corpus(corpus_home, tmp_path), tables_of(4)
    ranks.run(train_in_parts, str(home), "run", [6], tables)
    path = home / "run" / "checkpoints" / "step-0000006"
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["format"] == 2
    train_in_parts(Solo(), home, "run", [7], tables)  # alone: exact, and nothing left to keep
    assert not (home / "run" / "checkpoints" / "step-0000007" / "exchange.safetensors").exists()
    ranks.run(train_in_parts, str(home), "run", [9], tables)
    assert [s.size for s in read_run(home / "run").starts if s.rank == 0] == [
        ranks.size,
        1,
        ranks.size,
    ]


def test_what_one_strategy_kept_does_not_disturb_another(ranks, corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    ranks.run(train_in_parts, str(home), "run", [4], tables_of(4))
    steps = ranks.run(train_in_parts, str(home), "run", [6], {"sync": {"strategy": "ddp"}})
    assert steps == [[5, 6]] * ranks.size
    assert (
        ranks.run(train_in_parts, str(home), "run", [8], tables_of(8)) == [[7, 8]] * ranks.size
    )


def go_back(comm, directory):
    """Save between two updates, go back to there, then to the start; return all residuals."""
    model = new_model()
    replica = Compressed(4, 0.002).attach(model, comm)
    optimizer = torch.optim.SGD(model.parameters())
    checkpoints = CheckpointSync(
        Path(directory), 2, comm, model, optimizer, Averages(), new_model, replica.memory
    )
    found = []
    for step in (1, 2):
        exchange(replica, comm.world.rank, step)
        found.append(residual_of(replica))
        if step == 1:
            checkpoints.save(Progress(step=1))
    for safe in (1, 0):
        checkpoints.roll_back(Progress(step=2, guard=Guard(safe=(safe, 0))))
        found.append(residual_of(replica))
    return [numbers.numpy() for numbers in found]


def test_going_back_takes_the_residuals_along(ranks, tmp_path):
    for first, second, back, start in ranks.run(go_back, str(tmp_path)):
        assert first.any()
        assert (second != first).any()
        np.testing.assert_array_equal(back, first)
        assert not start.any()


def warnings_of(settings):
    return [event.message for event in run_with(Solo(), settings) if isinstance(event, Warned)]


def test_alone_a_strategy_is_said_to_be_a_no_op_or_refused(ranks, corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    short = {"train": {"max_steps": 2}}
    packed = {"strategy": "compressed"}
    [said] = warnings_of(tiny_settings(home, "run", sync=packed, **short))
    assert 'strategy "compressed" is a no-op' in said
    assert warnings_of(tiny_settings(home, "exact", **short)) == []
    local = {"strategy": "diloco", "warmup_steps": 1}
    with pytest.raises(ConfigError, match="diloco with one process is a no-op"):
        warnings_of(tiny_settings(home, "local", sync=local, **short))
    assert not (home / "local").exists()


def test_local_steps_go_on_exactly_with_the_one_process_that_is_left(
    ranks, corpus_home, tmp_path
):
    home, tables = link_corpus(corpus_home, tmp_path), {"sync": {**COMMON, **KEEPING["diloco"]}}
    ranks.run(train_in_parts, str(home), "run", [6], tables)
    shutil.copytree(home / "run", home / "twin")
    left = tiny_settings(home, "run", **tables, train={"max_steps": 8})
    assert any('strategy "diloco" is a no-op' in said for said in warnings_of(left))
    exact = tiny_settings(home, "twin", sync={"strategy": "ddp"}, train={"max_steps": 8})
    assert warnings_of(exact) == []
    assert_identical(final_state(home / "run", 8), final_state(home / "twin", 8))
    steps = ranks.run(train_in_parts, str(home), "run", [10], tables)
    assert steps == [[9, 10]] * ranks.size
