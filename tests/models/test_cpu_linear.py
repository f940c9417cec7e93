"""Products by numpy against those by torch, there and back."""

import pytest
import torch
from torch.nn import functional as F

from unisono.models.cpu_linear import CpuLinear, multiply


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 5), (2, 1, 5), (0, 5)])
def test_a_linear_layer_is_torchs(shape, threads):
    torch.manual_seed(1)
    layer, slope = CpuLinear(5, 6), torch.randn(*shape[:-1], 6)
    ours, theirs = (torch.randn(shape).requires_grad_() for _ in range(2))
    theirs.data.copy_(ours.data)
    weight, bias = (p.detach().clone().requires_grad_() for p in (layer.weight, layer.bias))
    got, wanted = layer(ours), F.linear(theirs, weight, bias)
    got.backward(slope)
    wanted.backward(slope)
    assert torch.allclose(got, wanted, atol=1e-6)
    pairs = (ours, theirs), (layer.weight, weight), (layer.bias, bias)
    for mine, other in pairs:
        assert torch.allclose(mine.grad, other.grad, atol=1e-6)


def test_rows_that_do_not_lie_together_are_multiplied_too():
    torch.manual_seed(2)
    layer, apart = CpuLinear(4, 3), torch.randn(4, 6).t().requires_grad_()
    wanted = F.linear(apart, layer.weight, layer.bias)
    assert torch.allclose(layer(apart), wanted, atol=1e-6)
    (ours,) = torch.autograd.grad(layer(apart).sum(), apart)
    (theirs,) = torch.autograd.grad(wanted.sum(), apart)
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_a_product_is_written_where_it_is_wanted():
    left, right, whole = torch.randn(3, 4), torch.randn(5, 4), torch.zeros(9, 5)
    out = multiply(left, right.t(), out=whole[3:6])
    assert torch.allclose(out, left @ right.t(), atol=1e-6)
    assert torch.equal(whole[3:6], out)
    assert not whole[:3].any()
    assert not whole[6:].any()
