from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from unisono.bundle.reader import open_bundle
from unisono.comm.group import Solo
from unisono.errors import DataError
from unisono.records.events import Validated
from unisono.train.averages import SUFFIX, Averages, split, weights_of
from unisono.train.checkpoints import checkpoint
from unisono.train.job import run_with


def test_the_average_is_that_of_its_formula():
    model = nn.Linear(3, 2)
    averages = Averages(model.named_parameters(), 0.5)
    by_hand = {name: w.detach().clone().double() for name, w in model.named_parameters()}
    for step in range(1, 30):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight))
        averages.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        for name, weight in model.named_parameters():
            by_hand[name] = decay * by_hand[name] + (1 - decay) * weight.detach().double()
    for name, value in weights_of(averages.tensors()).items():
        torch.testing.assert_close(value.double(), by_hand[name], rtol=1e-5, atol=1e-6)


def test_the_model_has_the_averages_only_within_the_block():
    model = nn.Linear(3, 2)
    averages = Averages(model.named_parameters(), 0.9)
    first = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1.0)
    with averages.in_place():
        assert torch.equal(model.weight, first)
    assert torch.equal(model.weight, first + 1.0)
    assert torch.equal(averages.tensors()["weight" + SUFFIX], first)


def test_no_decay_is_no_average():
    model = nn.Linear(3, 2)
    averages = Averages(model.named_parameters(), 0.0)
    averages.update(1)
    with averages.in_place():
        assert averages.tensors() == {}


def test_averages_of_another_model_are_refused():
    averages = Averages(nn.Linear(3, 2).named_parameters(), 0.9)
    with pytest.raises(DataError, match="there is no weight/average of shape"):
        averages.restore({}, where="here")


def test_the_average_is_what_is_validated_and_shipped(corpus_home, tmp_path):
    torch.set_num_threads(1)
    home = link_corpus(corpus_home, tmp_path)
    quiet = {"every_steps": 12, "bleu": False}
    runs = {}
    for name, decay in (("plain", 0.0), ("averaged", 0.9)):
        settings = tiny_settings(home, name, train={"average": decay}, validation=quiet)
        runs[name] = list(run_with(Solo(), settings))
    losses = {
        name: [event.loss for event in events if isinstance(event, Validated)]
        for name, events in runs.items()
    }
    assert losses["plain"] != losses["averaged"]
    last = {name: home / name / "checkpoints" / "step-0000012" for name in runs}
    plain, averaged = (load_file(path / checkpoint.MODEL) for path in last.values())
    for name, weight in plain.items():  # the training itself is not touched
        assert torch.equal(weight, averaged[name]), name
    _, kept = split(load_file(last["averaged"] / checkpoint.OPTIMIZER))
    shipped = open_bundle(Path(home) / "averaged" / "bundle").model()
    for name, value in weights_of(kept).items():
        assert torch.equal(dict(shipped.named_parameters())[name], value), name
        assert not torch.equal(averaged[name], value), name
