"""Attention of a few queries, compared with torch's kernel, and in other company."""

import pytest
import torch
from torch.nn import functional as F

from models.sample import small_model, words
from unisono.models.attention import masked_score
from unisono.models.step_attention import LANES, step_attention

HIDDEN = masked_score(torch.float32)


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def memory(sentences, positions, heads=4, width=64):
    shape = (sentences, heads, positions, width)
    return numbers(*shape, seed=2), numbers(*shape, seed=3)


@pytest.mark.parametrize("queries", [1, 2, 5])
@pytest.mark.parametrize("positions", [1, 3, 6, 7, 15, 16, 17, 40])
@pytest.mark.parametrize("hides", [False, True])
@torch.inference_mode()
def test_it_is_what_torch_computes(queries, positions, hides):
    query, both = numbers(3, 4, queries, 64), memory(3, positions)
    mask = None
    if hides and positions > 1:
        mask = torch.zeros(3, 1, 1, positions)
        mask[1, ..., positions // 2 :] = HIDDEN
    wanted = F.scaled_dot_product_attention(query, *both, mask)
    torch.testing.assert_close(step_attention(query, both, mask), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("queries", [1, 5])
@torch.inference_mode()
def test_a_sentence_has_the_same_bits_whatever_padding_others_need(queries):
    for length in (3, 12, 16, 17, 30):
        needed = -(-length // LANES) * LANES
        query, (keys, values) = numbers(7, 4, queries, 64), memory(7, 64)
        mask = torch.zeros(7, 1, 1, 64)
        mask[..., length:] = HIDDEN
        alone = [part[:1, :, :needed].contiguous() for part in (keys, values)]
        wanted = step_attention(query[:1], (alone[0], alone[1]), mask[:1, ..., :needed])
        assert torch.equal(step_attention(query, (keys, values), mask)[:1], wanted)


def test_sources_get_positions_that_change_nothing():
    model, source, target = small_model(), words(3, 7), words(3, 4)
    source[1, 4:] = 0
    with torch.no_grad():
        wanted = model(source, target)
    with torch.inference_mode():
        memory = model.encode(source)
        assert memory.mask.size(3) == LANES
        torch.testing.assert_close(model.decode(target, model.start(memory))[0], wanted)


def test_rows_that_are_selected_twice_are_those_of_the_last_order():
    model, source, target = small_model(), words(2, 5), words(4, 3)
    order, again = torch.tensor([3, 0, 1, 1]), torch.tensor([2, 2, 0, 1])
    with torch.inference_mode():
        _, cache = model.read(target[:, :2], model.start(model.encode(source)))
        once = cache.select(order.index_select(0, again))
        twice = cache.select(order).select(again)
        ids = target[:, 2:]
        assert torch.equal(model.read(ids, once)[0], model.read(ids, twice)[0])
    with torch.no_grad():
        _, cache = model.read(target[:, :2], model.start(model.encode(source)))
        near = model.read(ids, cache.select(order).select(again))[0]
        torch.testing.assert_close(near, model.read(ids, cache.select(order[again]))[0])
