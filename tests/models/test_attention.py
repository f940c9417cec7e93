"""The way with dropout against torch's kernel."""

import msgspec
import pytest
import torch

from models.sample import SETTINGS
from unisono.models.attention import SelfAttention, causal_mask


def attention(share):
    torch.manual_seed(2)
    return SelfAttention(msgspec.structs.replace(SETTINGS, attention_dropout=share))


@pytest.mark.parametrize("kind", ["all", "causal", "masked"])
def test_with_hardly_any_dropout_it_is_what_torch_computes(kind):
    x = torch.randn(3, 5, 16)
    results = []
    for share in (0.0, 1e-9):
        layer = attention(share).train()
        query, memory = layer.split(x)
        mask = causal_mask(query, past=0) if kind == "masked" else None
        results.append(layer.attend(query, memory, mask, causal=kind == "causal"))
    torch.testing.assert_close(results[1], results[0])


def test_the_parts_of_a_fused_layer_start_as_if_they_stood_alone():
    weight = attention(0.0).query_key_value.weight
    bound = (6 / (16 + 16)) ** 0.5
    for part in weight.chunk(3):
        assert 0.9 * bound < part.abs().max().item() <= bound
