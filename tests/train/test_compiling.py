"""Compiled layers make the same updates, and only training is compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from unisono.comm.group import Solo
from unisono.config.load import to_toml
from unisono.records import events as told
from unisono.train.job import run_with

NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


def settings_for(home, run, **tables):
    train = {"max_steps": 8, "average": 0.9, **tables.pop("train", {})}
    return tiny_settings(Path(home), run, train=train, **tables)


def numbers(comm, home, run, compiled):
    torch.set_num_threads(1)
    settings = settings_for(
        home,
        run,
        model=NO_DROPOUT,
        optimizer={"name": "sgd"},
        schedule={"name": "constant", "peak": 0.5},
        train={"compile": compiled},
    )
    events = list(run_with(comm, settings))
    losses = [
        event.loss for event in events if isinstance(event, told.StepTaken | told.Validated)
    ]
    return losses, [event.bleu for event in events if isinstance(event, told.Tested)]


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(
    "UNISONO_TEST_COMPILING" not in os.environ,
    reason="takes minutes, for what is off by default: set UNISONO_TEST_COMPILING=1",
)
def test_compiled_layers_make_the_same_updates(corpus_home, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    home = link_corpus(corpus_home, tmp_path)
    losses, bleu = numbers(Solo(), home, "plain", compiled=False)
    before = _programs()
    compiled, bleu_then = numbers(Solo(), home, "compiled", compiled=True)
    assert 2 <= _programs() - before <= 6  # each kind of layer, with a mask and without
    assert compiled == pytest.approx(losses, rel=1e-5)
    assert bleu_then == bleu


def _programs():
    counters = torch._dynamo.utils.counters
    return counters["stats"]["unique_graphs"]


@pytest.mark.ranks
def test_without_a_compiler_it_is_refused_before_anything_starts(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    config = tmp_path / "run.toml"
    config.write_text(to_toml(settings_for(home, "run", train={"compile": True})))
    done = subprocess.run(
        [sys.executable, "-m", "unisono", "train", str(config)],
        env={**os.environ, "CXX": "no-such-compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "cannot compile for cpu" in done.stderr
    assert "set `compile = false`" in done.stderr
    assert not (home / "run").exists()
