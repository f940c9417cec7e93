"""Numbers in fewer bits: how far off they are, and what becomes of odd ones."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unisono.comm.strategies.quantize import (
    BLOCKS_AT_ONCE,
    FACTOR_BYTES,
    SMALLEST,
    add_dequantized,
    dequantize,
    message_bytes,
    padded,
    quantize,
)
from unisono.cost_model import exchange
from unisono.cost_model.exchange import QUANTIZED_BLOCK as BLOCK

# The largest error, as a share of the largest number of the block.
COARSEST = {32: 0.0, 16: 2**-11, 8: 1 / 254, 4: 1 / 14}
FACTOR_OFF = 1 + 2**-8  # a factor is rounded itself


def there_and_back(values, bits):
    filled = torch.zeros(padded(values.numel()))
    filled[: values.numel()] = values
    return dequantize(quantize(filled, bits), bits)[: values.numel()]


def random_numbers(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = 10.0 ** torch.randint(-12, 6, (padded(count) // BLOCK,), generator=generator)
    return (
        torch.randn(padded(count), generator=generator).view(-1, BLOCK) * sizes[:, None]
    ).view(-1)[:count]


@pytest.mark.parametrize("bits", COARSEST)
@pytest.mark.parametrize("count", [1, 63, 64, 65, 5000, BLOCK * BLOCKS_AT_ONCE + 5])
def test_every_number_comes_back_within_half_a_step_of_its_block(bits, count):
    values = random_numbers(count)
    off = torch.zeros(padded(count))
    off[:count] = (there_and_back(values, bits) - values).abs()
    largest = torch.zeros(padded(count))
    largest[:count] = values.abs()
    largest = largest.view(-1, BLOCK).amax(1)
    assert (off.view(-1, BLOCK).amax(1) <= largest * COARSEST[bits] * FACTOR_OFF).all()


@pytest.mark.parametrize("bits", COARSEST)
@pytest.mark.parametrize("blocks", [1, BLOCKS_AT_ONCE + 1])
def test_what_is_added_and_taken_off_is_what_is_unpacked(bits, blocks):
    message = quantize(random_numbers(blocks * BLOCK), bits)
    start = random_numbers(blocks * BLOCK, seed=1)
    total = start.clone()
    add_dequantized(total, message, bits)
    assert torch.equal(total, start + dequantize(message, bits))
    total = start.clone()
    add_dequantized(total, message, bits, sign=-1)
    assert torch.equal(total, start - dequantize(message, bits))


@pytest.mark.parametrize("bits", COARSEST)
def test_a_message_has_the_length_that_physics_reckons_with(bits):
    message = quantize(random_numbers(512), bits)
    assert message.dtype == torch.uint8
    assert message.numel() == message_bytes(512, bits) == exchange.quantized_bytes(512, bits)
    assert message_bytes(513, bits) == message_bytes(576, bits)
    assert exchange.FACTOR_BITS == FACTOR_BYTES * 8


@pytest.mark.parametrize("bits", COARSEST)
def test_what_can_be_said_exactly_is(bits):
    levels = torch.arange(-7.0, 8.0).repeat(30)  # every step of the coarsest
    levels[::BLOCK] = 7.0
    if bits == 8:
        levels = levels.mul(127 / 7).round()
    if bits == 16:
        levels[::BLOCK] = 8.0
    assert torch.equal(there_and_back(levels, bits), levels)
    assert torch.equal(there_and_back(-levels, bits), -levels)
    assert torch.equal(there_and_back(torch.zeros(300), bits), torch.zeros(300))


@pytest.mark.parametrize("bits", COARSEST)
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 31, 32, 255, 299])
def test_what_is_not_finite_stays_so_and_its_neighbours_in_other_blocks_are_well(
    bits, odd, place
):
    values = random_numbers(300).clamp(-1, 1)
    expected = there_and_back(values, bits)
    values[place] = odd
    found = there_and_back(values, bits)
    assert not found[place].isfinite()
    others = torch.ones(300, dtype=torch.bool)
    others[place // BLOCK * BLOCK : (place // BLOCK + 1) * BLOCK] = False
    assert torch.equal(found[others], expected[others])


@pytest.mark.parametrize("bits", [8, 4])
def test_numbers_too_small_for_a_factor_become_zeros_and_no_nonsense(bits):
    for size in (1e-45, 1e-40, SMALLEST / 1e4):
        assert torch.equal(there_and_back(torch.full((9,), size), bits), torch.zeros(9))


@given(
    st.lists(st.floats(-(2.0**127), 2.0**127, width=32, allow_nan=False), min_size=1),
    st.sampled_from([8, 4]),
)
def test_finite_numbers_stay_finite_and_are_never_off_by_more_than_a_step(numbers, bits):
    values = torch.tensor(numbers)
    found = there_and_back(values, bits)
    assert found.isfinite().all()
    step = max(float(values.abs().max()), SMALLEST) * 2 * COARSEST[bits]
    assert float((found.double() - values.double()).abs().max()) <= step * 0.51
