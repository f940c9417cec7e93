"""The trial of the longest micro-batch, on the CPU: it leaves everything as it was."""

from pathlib import Path

import torch

from support.tiny import tiny_settings
from train.test_world_size import ALL, new_parts
from unisono.batching.stream import Stream, longest
from unisono.comm.group import Solo
from unisono.corpus.reader import open_corpus
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
