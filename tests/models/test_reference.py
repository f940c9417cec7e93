"""The model against torch's own layers with the same weights."""

import math

import pytest
import torch
from torch import nn

from models.sample import SETTINGS, VOCABULARY, small_model, words

WIDTH = SETTINGS.width


def signal(length):
    """Return the position signal, written out as the paper of 2017 has it."""
    table = torch.zeros(length, WIDTH)
    for position in range(length):
        for k in range(WIDTH // 2):
            angle = position / 10000 ** (2 * k / WIDTH)
            table[position, k], table[position, WIDTH // 2 + k] = (
                math.sin(angle),
                math.cos(angle),
            )
    return table


def copy(ours, theirs):
    theirs.load_state_dict(ours.state_dict())


def copy_layer(ours, theirs, attentions, norms):
    for (name, attention), target in zip(
        attentions.items(),
        (theirs.self_attn, getattr(theirs, "multihead_attn", None)),
        strict=False,
    ):
        if name == "self":
            fused = attention.query_key_value
            weight, bias = fused.weight, fused.bias
        else:
            weight = torch.cat([attention.query.weight, attention.key_value.weight])
            bias = torch.cat([attention.query.bias, attention.key_value.bias])
        target.in_proj_weight.data.copy_(weight)
        target.in_proj_bias.data.copy_(bias)
        copy(attention.output, target.out_proj)
    copy(ours.feed_forward[0], theirs.linear1)
    copy(ours.feed_forward[3], theirs.linear2)
    for number, around in enumerate(norms, start=1):
        copy(around.norm, getattr(theirs, f"norm{number}"))


def reference(model, source, target):
    """Return the logits that torch's layers compute with the weights of `model`."""
    first = model.settings.norm == "pre"
    activation = model.settings.activation
    options = {
        "dropout": 0.0,
        "batch_first": True,
        "norm_first": first,
        "activation": activation,
    }
    sizes = (WIDTH, SETTINGS.heads, SETTINGS.inner)
    names = ("source", "target", "output")
    if model.settings.tied_embeddings:
        names = ("shared",) * 3
    matrices = [model.embeddings[name] for name in names]
    x = matrices[0][source] * math.sqrt(WIDTH) + signal(source.size(1))
    padding = source == 0
    for ours in model.encoder:
        theirs = nn.TransformerEncoderLayer(*sizes, **options)
        norms = (ours.around_attention, ours.around_feed_forward)
        copy_layer(ours, theirs, {"self": ours.attention}, norms)
        x = theirs(x, src_key_padding_mask=padding)
    memory = model.encoder_norm(x)
    x = matrices[1][target] * math.sqrt(WIDTH) + signal(target.size(1))
    later = torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1)
    for ours in model.decoder:
        theirs = nn.TransformerDecoderLayer(*sizes, **options)
        norms = (ours.around_self, ours.around_cross, ours.around_feed_forward)
        attentions = {"self": ours.self_attention, "cross": ours.cross_attention}
        copy_layer(ours, theirs, attentions, norms)
        x = theirs(x, memory, tgt_mask=later, memory_key_padding_mask=padding)
    return model.decoder_norm(x) @ matrices[2][:VOCABULARY].T


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_it_computes_what_the_layers_of_torch_compute(norm, tied, activation):
    model = small_model(norm=norm, tied_embeddings=tied, activation=activation)
    with torch.no_grad():  # fresh biases are zero and fresh norms do nothing
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    source, target = words(3, 6), words(3, 5, seed=4)
    source[1, 4:] = 0
    expected = reference(model, source, target)
    torch.testing.assert_close(model(source, target), expected, rtol=1e-4, atol=1e-5)
    assert isinstance(model.encoder_norm, nn.LayerNorm) == (norm == "pre")
