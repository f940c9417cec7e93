"""Muon: orthogonal updates for matrices, Adam for everything else."""

import math

import pytest
import torch
from torch import nn

from unisono.models.attention import linear
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import build_model
from unisono.optim.build import EMBEDDINGS, build_optimizer
from unisono.optim.muon import PARTS, RMS_OF_ADAM, orthogonal
from unisono.optim.settings import Adam, Muon

SIZES = {"width": 8, "heads": 2, "inner": 16, "encoder_layers": 1, "decoder_layers": 1}


def give_gradients(model, seed=1):
    torch.manual_seed(seed)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)


def moved(model, optimizer, rate=0.01):
    """What one step subtracts from each weight, by name."""
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return {name: before[name] - w.detach() for name, w in model.named_parameters()}


@pytest.mark.parametrize("products", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8), (3, 16, 40), (2, 64, 16), (64, 16)])
def test_the_iteration_makes_all_singular_values_alike(shape, products):
    torch.manual_seed(2)
    scale = torch.logspace(0, -1.5, min(shape[-2:]))
    u, _, v = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    uneven = u * scale @ v
    turned = orthogonal(uneven, products)
    assert turned.dtype == torch.float32
    values = torch.linalg.svdvals(turned)
    assert values.min() > 0.6
    assert values.max() < 1.3
    # It turns no direction: the singular vectors stay.
    assert torch.allclose(turned, u @ v, atol=0.4)


def test_no_gradient_at_all_moves_nothing():
    assert torch.equal(orthogonal(torch.zeros(2, 3, 5)), torch.zeros(2, 3, 5))


@pytest.mark.parametrize("products", [torch.float32, torch.bfloat16])
def test_it_agrees_with_torch_on_a_single_matrix(products):
    torch.manual_seed(3)
    ours, theirs = nn.Linear(12, 20, bias=False), nn.Linear(12, 20, bias=False)
    theirs.load_state_dict(ours.state_dict())
    mine = build_optimizer(Muon(momentum=0.9), ours, products)
    reference = torch.optim.Muon(
        theirs.parameters(), 0.01, 0.0, momentum=0.9, adjust_lr_fn="match_rms_adamw"
    )
    for seed in range(4):
        give_gradients(ours, seed)
        theirs.weight.grad = ours.weight.grad.clone()
        moved(ours, mine)
        reference.step()
    # torch's works in bfloat16, which has two to three digits.
    step = 0.01 * RMS_OF_ADAM * math.sqrt(20)
    assert (ours.weight - theirs.weight).abs().max() < 0.05 * step


def test_layers_that_share_a_matrix_are_taken_apart():
    torch.manual_seed(4)
    fused, single = linear(6, 6, parts=3), [linear(6, 6) for _ in range(3)]
    optimizer = build_optimizer(Muon(), fused)
    assert [group[PARTS] for group in optimizer.param_groups if PARTS in group] == [3]
    give_gradients(fused)
    wanted = []
    for layer, gradient in zip(single, fused.weight.grad.chunk(3), strict=True):
        layer.weight.grad = gradient.clone()
        wanted.append(moved(layer, build_optimizer(Muon(), layer))["weight"])
    found = moved(fused, optimizer)["weight"]
    # What is left is the rounding of the weights themselves.
    torch.testing.assert_close(found, torch.cat(wanted), rtol=1e-4, atol=1e-7)


def test_all_but_the_layers_of_a_model_move_as_with_adam():
    settings = TransformerSettings(**SIZES, positions="learned", max_positions=8)
    model, control = (build_model(settings, 16) for _ in range(2))
    control.load_state_dict(model.state_dict())
    optimizer = build_optimizer(Muon(beta2=0.98), model)
    for each in (model, control):
        give_gradients(each)
    ours = moved(model, optimizer)
    adams = moved(control, build_optimizer(Adam(beta2=0.98), control))
    layers = {f"{n}.weight" for n, m in model.named_modules() if isinstance(m, nn.Linear)}
    assert layers
    for name in ours:
        assert torch.equal(ours[name], adams[name]) == (name not in layers), name
    groups = optimizer.param_groups
    words = [id(w) for group in groups if group[EMBEDDINGS] for w in group["params"]]
    assert words == [id(w) for w in model.embedding_weights]
    count = sum(len(group["params"]) for group in groups)
    assert count == len(list(model.parameters()))


def test_an_update_is_about_as_large_as_one_of_adam():
    torch.manual_seed(5)
    layer, control = nn.Linear(64, 128), nn.Linear(64, 128)
    for each in (layer, control):
        give_gradients(each)
    update = moved(layer, build_optimizer(Muon(), layer))["weight"]
    assert update.square().mean().sqrt() == pytest.approx(0.2 * 0.01, rel=0.3)


def test_decay_shrinks_matrices_and_spares_biases():
    layer = nn.Linear(4, 4)
    before = layer.weight.detach().clone()
    for weight in layer.parameters():
        weight.grad = torch.zeros_like(weight)
    shrunk = moved(layer, build_optimizer(Muon(weight_decay=0.5), layer), rate=0.1)
    torch.testing.assert_close(shrunk["weight"], before * 0.05)
    assert not shrunk["bias"].any()


def test_matrices_keep_one_number_a_weight_and_others_two():
    layer = nn.Linear(4, 4)
    optimizer = build_optimizer(Muon(), layer)
    give_gradients(layer)
    moved(layer, optimizer)
    assert set(optimizer.state[layer.weight]) == {"momentum"}
    assert {"exp_avg", "exp_avg_sq"} < set(optimizer.state[layer.bias])
