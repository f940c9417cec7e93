"""The trial of the longest micro-batch, on the CPU: it leaves everything as it was."""

import re
from pathlib import Path

import pytest
import torch

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from train.test_world_size import ALL, new_parts
from unisono.batching.stream import Stream, longest
from unisono.comm.group import Solo
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.train import loop
from unisono.train.evaluation import Evaluator
from unisono.train.job import run_with
from unisono.train.memory_trial import pass_through


def test_the_trial_leaves_no_gradient_and_no_change(corpus_home):
    corpus = open_corpus(Path(corpus_home) / "corpus")
    parts = new_parts(Solo(), "ddp", corpus.manifest.vocabulary, ALL)
    stream = Stream(corpus.split("train"), tiny_settings(Path(corpus_home)).batching, 5)
    model = parts.replica.module
    before = [weight.detach().clone() for weight in model.parameters()]
    pass_through(parts, longest(stream))
    assert all(weight.grad is None for weight in model.parameters())
    assert all(map(torch.equal, before, model.parameters()))


def test_an_update_that_does_not_fit_in_mid_run_is_named(corpus_home, tmp_path, monkeypatch):
    take_step = loop.take_step

    def full_at_three(parts, work, step, *further):
        if step == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return take_step(parts, work, step, *further)

    monkeypatch.setattr(loop, "take_step", full_at_three)
    settings = tiny_settings(link_corpus(corpus_home, tmp_path), train={"max_steps": 9})
    with pytest.raises(ConfigError) as caught:
        for _ in run_with(Solo(), settings):
            pass
    said = r"update 3, whose largest micro-batch \(number \d+\) has \d+ sentences of \d+ source"
    assert re.search(said, caught.value.what)
    assert "does not fit into the memory of cpu" in caught.value.what
    assert "the same command continues" in caught.value.fix
    assert caught.value.exit_code == 2


def test_a_validation_that_does_not_fit_is_named(corpus_home, tmp_path, monkeypatch):
    def full(evaluator, step):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(Evaluator, "validate", full)
    settings = tiny_settings(link_corpus(corpus_home, tmp_path), train={"max_steps": 2})
    with pytest.raises(ConfigError) as caught:
        for _ in run_with(Solo(), settings):
            pass
    assert "the validation after update 2 does not fit into the memory" in caught.value.what
    assert "the same command continues" in caught.value.fix
