"""Killed and continued to the last bit, with each thing that keeps a state of its own."""

from pathlib import Path

import pytest
import torch

from support.tiny import tiny_settings
from train.test_resume import assert_identical, final_state, link_corpus
from unisono.comm.group import Solo
from unisono.records.events import StepTaken
from unisono.train.job import run_with

LAST = 9
QUIET = {"validation": {"every_steps": 3, "bleu": False}, "checkpoint": {"every_steps": 2}}
FEATURES = {
    "adamw": {"optimizer": {"name": "adamw"}},
    "adafactor": {"optimizer": {"name": "adafactor"}},
    "muon": {"optimizer": {"name": "muon"}},
    "momentum": {"optimizer": {"name": "sgd", "momentum": 0.9}},
    "bf16": {"train": {"precision": "bf16"}},
    "fp16": {"train": {"precision": "fp16"}},
    "average": {"train": {"average": 0.9}},
    "all": {
        "train": {"precision": "fp16", "average": 0.9, "clip_norm": 0.5},
        "optimizer": {"name": "adafactor"},
    },
}


def train(comm, home, run, tables, deaths=()):
    """Train; drop everything in memory after so many updates each time, and start again."""
    torch.set_num_threads(1)
    for death in (*deaths, 10**9):
        table = {**QUIET, **tables}
        table["train"] = {"max_steps": LAST, **tables.get("train", {})}
        going = run_with(comm, tiny_settings(Path(home), run, **table))
        taken = 0
        for event in going:
            taken += isinstance(event, StepTaken)
            if taken == death:
                break
        going.close()


@pytest.mark.parametrize("feature", FEATURES)
def test_alone(corpus_home, tmp_path, feature):
    home = link_corpus(corpus_home, tmp_path)
    train(Solo(), home, "whole", FEATURES[feature])
    train(Solo(), home, "parts", FEATURES[feature], [3, 4])
    assert_identical(final_state(home / "whole", LAST), final_state(home / "parts", LAST))


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2], indirect=True)
@pytest.mark.parametrize("feature", ["average", "all"])
def test_on_several_ranks(ranks, corpus_home, tmp_path, feature):
    home = link_corpus(corpus_home, tmp_path)
    ranks.run(train, str(home), "whole", FEATURES[feature])
    ranks.run(train, str(home), "parts", FEATURES[feature], [3, 4])
    assert_identical(final_state(home / "whole", LAST), final_state(home / "parts", LAST))
