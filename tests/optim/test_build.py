"""Each optimizer moves weights as its own rule says, and its state survives a checkpoint."""

import pytest
import torch
from torch import nn

from unisono.config.load import resolve
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import build_model
from unisono.optim.build import EMBEDDINGS, build_optimizer
from unisono.optim.settings import OPTIMIZERS, Adafactor, Adam, AdamW, Sgd
from unisono.train.checkpoints.state import optimizer_tensors, restore_optimizer


def new_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3))


def move(model, optimizer, steps, first=1):
    for step in range(first, first + steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(4, 5)).square().sum().backward()
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / step
        optimizer.step()
    return [weight.detach().clone() for weight in model.parameters()]


def test_adam_is_the_adam_of_its_paper():
    model = new_model()
    settings = Adam(beta1=0.8, beta2=0.9, epsilon=1e-3)
    by_hand = {name: w.detach().clone() for name, w in model.named_parameters()}
    mean, square = ({name: torch.zeros_like(w) for name, w in by_hand.items()} for _ in "ab")
    optimizer = build_optimizer(settings, model)
    for step in range(1, 5):
        move(model, optimizer, 1, first=step)
        for name, weight in model.named_parameters():
            mean[name] = 0.8 * mean[name] + 0.2 * weight.grad
            square[name] = 0.9 * square[name] + 0.1 * weight.grad**2
            m, v = mean[name] / (1 - 0.8**step), square[name] / (1 - 0.9**step)
            by_hand[name] -= 0.01 / step * m / (v.sqrt() + 1e-3)
            torch.testing.assert_close(weight.detach(), by_hand[name])


def test_weights_with_a_row_for_each_word_are_a_group_of_their_own():
    sizes = {"width": 8, "heads": 2, "inner": 8, "encoder_layers": 1, "decoder_layers": 1}
    for tied, names in ((True, ["shared"]), (False, ["source", "target", "output"])):
        model = build_model(TransformerSettings(**sizes, tied_embeddings=tied), 16)
        groups = build_optimizer(AdamW(weight_decay=0.5), model).param_groups
        words = [weight for group in groups if group[EMBEDDINGS] for weight in group["params"]]
        assert {id(w) for w in words} == {id(model.embeddings[name]) for name in names}
        assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
        assert {group["weight_decay"] for group in groups if group[EMBEDDINGS]} == {0.5}


def test_decay_is_not_for_norms_and_biases():
    for settings in (
        AdamW(weight_decay=0.5),
        Adafactor(weight_decay=0.5),
        Sgd(weight_decay=0.5),
    ):
        model = new_model()
        before = [weight.detach().clone() for weight in model.parameters()]
        optimizer = build_optimizer(settings, model)
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        for weight in model.parameters():
            weight.grad = torch.zeros_like(weight)
        optimizer.step()
        for old, new in zip(before, model.parameters(), strict=True):
            assert torch.equal(old, new) == (new.dim() < 2)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_state_survives_a_checkpoint_to_the_last_bit(name):
    settings = OPTIMIZERS[name](**({"momentum": 0.9} if name == "sgd" else {}))
    whole = new_model()
    wanted = move(whole, build_optimizer(settings, whole), 6)
    model = new_model()
    optimizer = build_optimizer(settings, model)
    move(model, optimizer, 3)
    kept = {key: value.clone() for key, value in optimizer_tensors(model, optimizer).items()}
    again = build_optimizer(settings, model)
    restore_optimizer(model, again, kept, where="test")
    found = move(model, again, 3, first=4)
    assert all(torch.equal(a, b) for a, b in zip(wanted, found, strict=True))


def test_adafactor_keeps_rows_and_columns_in_place_of_squares():
    model = new_model()
    optimizer = build_optimizer(Adafactor(), model)
    move(model, optimizer, 1)
    tensors = optimizer_tensors(model, optimizer)
    assert tensors["0.weight/row_var"].numel() + tensors["0.weight/col_var"].numel() == 12
    assert tensors["0.bias/variance"].shape == (7,)


def test_adafactor_is_chosen_by_its_name():
    table = {"data": {}, "corpus": {"directory": "c"}, "train": {"max_steps": 1}}
    settings = resolve({**table, "optimizer": {"name": "adafactor", "clip": 2.0}}, where="x")
    optimizer = build_optimizer(settings.optimizer, new_model())
    assert isinstance(optimizer, torch.optim.Adafactor)
    assert optimizer.param_groups[0]["d"] == 2.0
