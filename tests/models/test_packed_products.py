"""Products in bf16 with packed weights, compared with fp32 arithmetic on rounded factors."""

import pytest
import torch
from torch.nn import functional as F

from models.sample import SETTINGS, VOCABULARY, small_model, words
from unisono.errors import ConfigError
from unisono.models.attention import linear
from unisono.models.cpu_bf16 import multiplies_in_bf16
from unisono.models.packed_products import PackedWeight

pytestmark = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bf16 here"
)


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rounded(x):
    return x.bfloat16().float()


@pytest.mark.parametrize("shape", [(5, 48), (2, 7, 48), (64, 48), (0, 48)])
@torch.inference_mode()
def test_a_layer_multiplies_rounded_factors(shape):
    weight, bias, x = numbers(24, 48), numbers(24, seed=2), numbers(*shape, seed=3)
    found = PackedWeight(weight, bias)(x)
    wanted = F.linear(rounded(x), rounded(weight), bias)
    assert (found.dtype, found.shape) == (torch.float32, wanted.shape)
    torch.testing.assert_close(found, wanted, rtol=2**-7, atol=2**-7)


@torch.inference_mode()
def test_relu_follows_if_asked_for():
    packed, x = PackedWeight(numbers(24, 48), numbers(24)), numbers(9, 48, seed=3)
    torch.testing.assert_close(packed.rows(x, "relu"), packed.rows(x).relu())


@pytest.mark.parametrize("inputs, outputs", [(64, 96), (256, 1024), (1024, 256), (256, 2000)])
@torch.inference_mode()
def test_a_row_has_the_same_bits_in_any_company(inputs, outputs):
    packed = PackedWeight(numbers(outputs, inputs), numbers(outputs, seed=2))
    x = numbers(700, inputs, seed=3)
    whole = packed(x)
    for count in (1, 2, 31, 32, 33, 100, 320, 513):
        assert torch.equal(packed(x[:count]), whole[:count])
        assert torch.equal(packed(x[-count:]), whole[-count:])


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"norm": "post", "positions": "rotary", "activation": "swiglu"},
        {"tied_embeddings": False, "activation": "gelu"},
    ],
)
def test_a_packed_model_is_near_the_model_and_only_in_inference_mode(choices):
    model, source, target = small_model(**choices), words(3, 9), words(3, 7)
    with torch.no_grad():
        exact = model(source, target)
    model.pack()
    with torch.no_grad():
        assert torch.equal(model(source, target), exact)
    with torch.inference_mode():
        found = model(source, target)
    distance = (found - exact).norm() / exact.norm()
    assert 0 < distance < 0.02
    assert exact.shape == (3, 7, VOCABULARY)


def test_a_layer_that_is_packed_still_learns_in_fp32():
    layer, x = linear(16, 8), numbers(4, 16)
    layer.pack()
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(8, -1))


def test_narrow_models_and_other_precisions_stay_in_fp32():
    assert not multiplies_in_bf16("fp32", "cpu", 512, 2048)
    assert not multiplies_in_bf16("auto", "cpu", SETTINGS.width, SETTINGS.inner)
    assert not multiplies_in_bf16("auto", "cuda", 512, 2048)
    with pytest.raises(ConfigError, match="not for GPUs"):
        multiplies_in_bf16("bf16", "cuda", 512, 2048)
