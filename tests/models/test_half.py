"""Training in bf16 on a CPU, compared with fp32 arithmetic on numbers rounded to bf16."""

import threading

import msgspec
import pytest
import torch
from torch.nn import functional as F

from models.sample import SETTINGS, VOCABULARY, words
from unisono.models.attention import linear
from unisono.models.dropout import Dropout, drop_half_, scale_of
from unisono.models.dropped_attention import dropped_attention
from unisono.models.half_loss import half_loss_sum
from unisono.models.half_products import ROWS, half_linear, half_rows
from unisono.models.half_weights import HalfWeights, half_weights
from unisono.models.layers import FeedForward
from unisono.models.output import loss_sums
from unisono.models.transformer import build_model

NEAR = {"rtol": 2**-6, "atol": 2**-6}


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def distance(found, exact):
    return ((found - exact).norm() / exact.norm()).item()


def rounded(x):
    return x.detach().bfloat16().float().requires_grad_()


@pytest.mark.parametrize("shape", [(3, 7, 16), (2, 32, 16), (2, 5, 4, 4), (1, 4, 1, 16)])
def test_a_layer_multiplies_rounded_factors(shape):
    layer, x = linear(16, 24), numbers(*shape).requires_grad_()
    torch.nn.init.normal_(layer.bias)
    y = half_linear(x, layer.weight, layer.bias, HalfWeights())
    like, weight, bias = rounded(x), rounded(layer.weight), rounded(layer.bias)
    wanted = F.linear(like.view(*shape[:2], 16), weight, bias)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), wanted, **NEAR)
    grad = numbers(*wanted.shape, seed=2).bfloat16()
    y.backward(grad)
    wanted.backward(grad.float())
    pairs = [(x, like), (layer.weight, weight), (layer.bias, bias)]
    for found, exact in pairs:
        assert found.grad.dtype == torch.float32
        torch.testing.assert_close(found.grad, exact.grad, **NEAR)


@pytest.mark.parametrize("rate", [0.0, 0.25])
def test_two_layers_in_one_step_equal_one_after_the_other(rate):
    settings = msgspec.structs.replace(SETTINGS, activation_dropout=rate)
    together, x = FeedForward(settings).train(), numbers(3, 9, settings.width).requires_grad_()
    with torch.no_grad():  # so that rounding changes no sign
        together[0].weight.mul_(0.1)
        together[0].bias.copy_((torch.arange(settings.inner) % 3) - 1.5)
    wanted_x = x.detach().clone().requires_grad_()
    torch.manual_seed(3)
    with HalfWeights().used_here():
        y = together(x)
    y.backward(torch.ones_like(y))
    found = [weight.grad for weight in together.parameters()]
    together.zero_grad()
    torch.manual_seed(3)
    wanted = together(wanted_x)
    wanted.backward(torch.ones_like(wanted))
    pairs = [(y, wanted), (x.grad, wanted_x.grad)]
    pairs += zip(found, [weight.grad for weight in together.parameters()], strict=True)
    for one, exact in pairs:
        assert distance(one, exact) < 0.02


@pytest.mark.parametrize("count", [0, 1, ROWS, ROWS + 1])
def test_additional_rows_are_zero(count):
    x = numbers(count, 8)
    rows = half_rows(x, 8)
    assert len(rows) % ROWS == 0
    assert torch.equal(rows[:count], x.bfloat16())
    assert not rows[count:].any()


def test_rows_that_need_no_change_are_not_copied():
    x = numbers(ROWS, 8).bfloat16()
    assert half_rows(x, 8).data_ptr() == x.data_ptr()


def test_dropout_drops_what_it_drops_in_fp32_and_scales_exactly():
    dropout, x = Dropout(0.1).train(), numbers(40, 50)
    torch.manual_seed(4)
    wanted = dropout(x)
    torch.manual_seed(4)
    half = x.bfloat16().requires_grad_()
    found = dropout(half)
    assert torch.equal(found == 0, wanted == 0)
    assert 0 < int((found == 0).sum()) < 400
    scale = scale_of(dropout.dropped)
    # Rounded to bf16 first, the scale would give other numbers.
    exact = (half.detach().float() * scale).bfloat16() * (wanted != 0)
    assert torch.equal(found, exact)
    found.backward(torch.ones_like(found))
    assert torch.equal(half.grad == 0, wanted == 0)
    in_place = x.bfloat16()
    torch.manual_seed(4)
    drop_half_(in_place, dropout.dropped)
    assert torch.equal(in_place, found)


def test_dropout_leaves_the_mean():
    ones = torch.ones(1000, 1000, dtype=torch.bfloat16)
    found = Dropout(0.3).train().add(torch.zeros(1000, 1000), ones)
    assert found.dtype == torch.float32
    assert found.mean().item() == pytest.approx(1, abs=0.003)


@pytest.mark.parametrize("dropped", [0, 20_000])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_has_the_gradients_of_the_formula(dropped, masked):
    inputs = [numbers(2, 3, length, 4, seed=length) for length in (5, 6, 7)]
    query, key, value = (one[:, :, : 6 - (one.size(2) == 5)].clone() for one in inputs)
    mask = torch.zeros(2, 1, 1, 6)
    mask[1, :, :, 4:] = torch.finfo(torch.float32).min
    ours = [one.clone().requires_grad_() for one in (query, key, value)]
    plain = [one.clone().requires_grad_() for one in (query, key, value)]
    torch.manual_seed(5)
    found = dropped_attention(ours[0], (ours[1], ours[2]), mask if masked else None, dropped)
    scores = plain[0] @ plain[1].mT / 2 + (mask if masked else 0)
    dropout = Dropout(dropped / 65536).train()
    torch.manual_seed(5)
    wanted = dropout(scores.softmax(3)) @ plain[2]
    torch.testing.assert_close(found, wanted)
    grad = numbers(*wanted.shape, seed=9)
    found.backward(grad)
    wanted.backward(grad)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 10**9])
def test_the_loss_is_the_cross_entropy_of_rounded_factors(smoothing, chunk, monkeypatch):
    monkeypatch.setattr("unisono.models.half_loss.CHUNK_LOGITS", chunk)
    states, matrix = numbers(150, 16).requires_grad_(), numbers(40, 16, seed=2).requires_grad_()
    ids = torch.randint(0, 40, (150,), generator=torch.Generator().manual_seed(3))
    loss = half_loss_sum(states, matrix, ids, smoothing, HalfWeights())
    loss.backward()
    like, exact = rounded(states), rounded(matrix)
    wanted = F.cross_entropy(like @ exact.T, ids, reduction="sum", label_smoothing=smoothing)
    wanted.backward()
    torch.testing.assert_close(loss, wanted, rtol=0.003, atol=0)
    torch.testing.assert_close(states.grad, like.grad, rtol=0.03, atol=0.03)
    torch.testing.assert_close(matrix.grad, exact.grad, rtol=0.03, atol=0.06)


def test_a_weight_is_cast_once_within_a_block_and_anew_after_it():
    halves, weight = HalfWeights(), torch.nn.Parameter(numbers(3, 4))
    twin = torch.nn.Parameter(weight.data)
    with halves.kept():
        with halves.used_here():
            first = halves.of(weight)
        with halves.used_here():
            assert halves.of(weight) is first
            assert halves.of(twin) is first
    with torch.no_grad():
        weight.zero_()
    for _ in range(2):
        with halves.used_here():
            assert torch.equal(halves.of(weight), weight.bfloat16())
        with torch.no_grad():
            weight.add_(1)


def test_a_block_counts_for_its_thread_alone_and_ends_with_an_error():
    halves, seen = HalfWeights(), []
    with pytest.raises(ZeroDivisionError), halves.used_here():
        other = threading.Thread(target=lambda: seen.append(half_weights()))
        other.start()
        other.join()
        assert half_weights() is halves
        raise ZeroDivisionError
    assert seen == [None]
    assert half_weights() is None


CHOICES = (
    {},
    {"norm": "post", "positions": "rotary", "activation": "swiglu", "word_dropout": 0.1},
    {"tied_embeddings": False, "activation": "gelu", "positions": "learned"},
    {"output_bias": True, "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
)


@pytest.mark.parametrize("choices", CHOICES)
def test_every_model_is_as_near_to_fp32_as_torch_comes_with_autocast(choices):
    # Single signs decide how near one model comes (0.7 to 1.4 times as near as torch).
    ours, torchs = zip(*(distances(choices, seed) for seed in range(6)), strict=True)
    assert sum(ours) < 1.3 * sum(torchs)


def distances(choices, seed):
    """Return how far gradients are from those in fp32: ours in bf16, and by autocast."""
    torch.manual_seed(seed)
    choices = choices | {"max_positions": 20}
    model = build_model(msgspec.structs.replace(SETTINGS, **choices), VOCABULARY).train()
    source, target = words(80, 14, seed=seed + 1), words(80, 12, seed=seed + 20)
    source[1, 4:] = 0
    target[2, 3:] = 0

    def gradients():
        torch.manual_seed(7)
        loss = loss_sums(model, source, target[:, :-1], target[:, 1:], 0.1)
        loss.backward()
        found = [weight.grad for weight in model.parameters()]
        model.zero_grad()
        return loss.item(), torch.cat([grad.flatten() for grad in found])

    exact_loss, exact = gradients()
    with torch.autocast("cpu", torch.bfloat16):
        _, torchs = gradients()
    with HalfWeights().used_here():
        loss, found = gradients()
    assert loss != exact_loss
    assert loss == pytest.approx(exact_loss, rel=0.005)
    assert found.dtype == torch.float32
    return distance(found, exact), distance(torchs, exact)
