"""The parts of a layer, and how they start."""

import pytest
import torch

from models.sample import SETTINGS, small_model, words
from unisono.models.output import loss_sums


def test_swiglu_is_a_gate_times_a_value():
    part = small_model(activation="swiglu").encoder[0].feed_forward
    torch.nn.init.normal_(part[0].bias)
    x = torch.randn(3, SETTINGS.width)
    gate, value = part[0].weight.chunk(2)
    gate_bias, value_bias = part[0].bias.chunk(2)
    opened = x @ gate.T + gate_bias
    inside = opened * opened.sigmoid() * (x @ value.T + value_bias)
    assert inside.shape == (3, SETTINGS.inner)
    torch.testing.assert_close(part(x), part.output(inside))


def test_gate_and_value_start_as_if_they_stood_alone():
    weight = small_model(activation="swiglu").encoder[0].feed_forward[0].weight
    bound = (6 / (SETTINGS.width + SETTINGS.inner)) ** 0.5
    for part in weight.chunk(2):
        assert 0.9 * bound < part.abs().max().item() <= bound


def gradient_norms(initialisation):
    """Return the norm of the gradient in each of 18 decoder layers with norms after parts."""
    model = small_model(
        norm="post",
        width=32,
        heads=4,
        inner=64,
        encoder_layers=18,
        decoder_layers=18,
        initialisation=initialisation,
    )
    target = words(6, 10, seed=4)
    loss_sums(model.train(), words(6, 9), target[:, :-1], target[:, 1:], 0.0).backward()
    return [
        torch.stack([weight.grad.norm() for weight in layer.parameters()]).norm().item()
        for layer in model.decoder
    ]


def test_gradients_reach_the_first_of_18_layers_only_if_scaled_by_depth():
    plain, scaled = gradient_norms("xavier"), gradient_norms("depth_scaled")
    assert max(plain) > 100 * min(plain)
    assert max(scaled) < 3 * min(scaled)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_only_what_parts_add_is_scaled_by_depth(stack):
    plain = getattr(small_model(), stack).state_dict()
    scaled = getattr(small_model(initialisation="depth_scaled"), stack).state_dict()
    parts = 2 * (2 if stack == "encoder" else 3)
    last = ("output.weight", "feed_forward.3.weight")
    for name, weight in plain.items():
        share = parts**-0.5 if name.endswith(last) else 1.0
        torch.testing.assert_close(scaled[name], weight * share)
    assert sum(name.endswith(last) for name in plain) == parts
