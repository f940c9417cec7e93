"""Triton kernels: one quantizes a bucket and leaves the residual, one adds up messages.

`quantize.py` is the reference, and they come to its bits. So the largest number of a block is
found by bit pattern, where nan is above infinity and is not passed over; a factor becomes a
bfloat16, and a number a whole one, by rounding ties to even; quotients are exact; and no
product is fused with a sum.

R blocks make a tile of two halves [R, HALF]: in 4 bits a byte holds a number of each half. Each
kernel is an operation of torch (`unisono::…`), with which the rehearsal on fake tensors counts
it. Import this module only where triton is installed.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from unisono.comm.strategies.quantize import (
    FACTOR_BYTES,
    LARGEST_UNIT,
    SMALLEST,
    message_bytes,
)
from unisono.cost_model.exchange import QUANTIZED_BLOCK as BLOCK

HALF = tl.constexpr(BLOCK // 2)
TILE_ROWS = 32
ROUND_EACH_STEP = {"enable_fp_fusion": False}  # a product and a sum stay two operations
# Beside this number float32 has no room for fractions: adding it rounds to whole numbers.
ROUNDER = tl.constexpr(1.5 * 2**23)
INFINITY_BITS = tl.constexpr(0x7F800000)
BFLOAT16_NAN = tl.constexpr(0x7FC0)
FACTORS_OF_A_BLOCK = tl.constexpr(FACTOR_BYTES)


@triton.jit
def _tile(blocks, ROWS: tl.constexpr):
    """Return the places of this program's blocks [R, 1], of a half [1, HALF], and a mask."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    return row, tl.arange(0, HALF)[None, :], row < blocks


@triton.jit
def _to_bfloat16_bits(numbers):
    """Return the bits of `numbers` that are not negative, rounded to bfloat16."""
    bits = numbers.to(tl.int32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return tl.where(bits > INFINITY_BITS, BFLOAT16_NAN, rounded)


@triton.jit
def _to_whole(numbers, offset):
    """Return the nearest whole numbers, raised by `offset`; nan becomes 0."""
    raised = (numbers + ROUNDER) - ROUNDER + offset
    return tl.where(raised == raised, raised, 0.0).to(tl.int32)


@triton.jit
def _load_units(body, row, column, inside, BITS: tl.constexpr):
    """Return both halves of blocks, in multiples of their factors."""
    if BITS == 4:
        pairs = tl.load(body + row * HALF + column, mask=inside, other=0).to(tl.int32)
        low, high = (pairs & 15).to(tl.float32) - 8.0, (pairs >> 4).to(tl.float32) - 8.0
    else:
        kind: tl.constexpr = tl.int8 if BITS == 8 else tl.float16
        places = body.to(tl.pointer_type(kind)) + row * (2 * HALF) + column
        low = tl.load(places, mask=inside, other=0).to(tl.float32)
        high = tl.load(places + HALF, mask=inside, other=0).to(tl.float32)
    return low, high


@triton.jit
def _store_units(body, row, column, inside, low, high, BITS: tl.constexpr):
    """Write both halves of blocks, and return them as they will be read."""
    if BITS == 4:
        first, second = _to_whole(low, 8.0), _to_whole(high, 8.0)
        pairs = (first | (second << 4)).to(tl.uint8)
        tl.store(body + row * HALF + column, pairs, mask=inside)
        low, high = first.to(tl.float32) - 8.0, second.to(tl.float32) - 8.0
    else:
        kind: tl.constexpr = tl.int8 if BITS == 8 else tl.float16
        places = body.to(tl.pointer_type(kind)) + row * (2 * HALF) + column
        if BITS == 8:
            low, high = _to_whole(low, 0.0), _to_whole(high, 0.0)
        low, high = low.to(kind), high.to(kind)
        tl.store(places, low, mask=inside)
        tl.store(places + HALF, high, mask=inside)
        low, high = low.to(tl.float32), high.to(tl.float32)
    return low, high


@triton.jit(do_not_specialize=["blocks"])
def _pack(values, message, blocks, smallest, step, BITS: tl.constexpr, ROWS: tl.constexpr):
    row, column, inside = _tile(blocks, ROWS)
    places = values + row * (2 * HALF) + column
    low = tl.load(places, mask=inside, other=0.0)
    high = tl.load(places + HALF, mask=inside, other=0.0)
    patterns = tl.maximum(
        low.to(tl.int32, bitcast=True) & 0x7FFFFFFF,
        high.to(tl.int32, bitcast=True) & 0x7FFFFFFF,
    )
    largest = tl.max(patterns, axis=1)[:, None].to(tl.float32, bitcast=True)
    largest = tl.where(largest < smallest, smallest, largest)
    bits = _to_bfloat16_bits(largest * step)
    tl.store(message.to(tl.pointer_type(tl.uint16)) + row, bits.to(tl.uint16), mask=inside)
    factor = (bits << 16).to(tl.float32, bitcast=True)
    inverse = tl.div_rn(tl.full([ROWS, 1], 1.0, tl.float32), factor)
    body = message + blocks * FACTORS_OF_A_BLOCK
    sent = _store_units(body, row, column, inside, low * inverse, high * inverse, BITS)
    tl.store(places, low - sent[0] * factor, mask=inside)
    tl.store(places + HALF, high - sent[1] * factor, mask=inside)


@triton.jit(do_not_specialize=["blocks", "messages", "stride"])
def _add_up(table, total, messages, stride, blocks, BITS: tl.constexpr, ROWS: tl.constexpr):
    row, column, inside = _tile(blocks, ROWS)
    low = tl.full([ROWS, HALF], -0.0, tl.float32)  # the only number that adding changes nothing
    high = low
    message = table
    for _ in range(messages):
        bits = tl.load(message.to(tl.pointer_type(tl.uint16)) + row, mask=inside, other=0)
        factor = (bits.to(tl.int32) << 16).to(tl.float32, bitcast=True)
        body = message + blocks * FACTORS_OF_A_BLOCK
        units = _load_units(body, row, column, inside, BITS)
        low += units[0] * factor
        high += units[1] * factor
        message += stride
    places = total + row * (2 * HALF) + column
    tl.store(places, low, mask=inside)
    tl.store(places + HALF, high, mask=inside)


def _new_message(values: Tensor, bits: int) -> Tensor:
    return values.new_empty(message_bytes(values.numel(), bits), dtype=torch.uint8)


def _new_total(table: Tensor, bits: int) -> Tensor:
    blocks = table.size(1) // message_bytes(BLOCK, bits)
    return table.new_empty(blocks * BLOCK, dtype=torch.float32)


def _quantize_with_residual(values: Tensor, bits: int) -> Tensor:
    message = _new_message(values, bits)
    blocks = values.numel() // BLOCK
    _pack[(triton.cdiv(blocks, TILE_ROWS),)](
        values,
        message,
        blocks,
        SMALLEST,
        1 / LARGEST_UNIT[bits],
        BITS=bits,
        ROWS=TILE_ROWS,
        **ROUND_EACH_STEP,
    )
    return message


def _sum_messages(table: Tensor, bits: int) -> Tensor:
    total = _new_total(table, bits)
    blocks = total.numel() // BLOCK
    _add_up[(triton.cdiv(blocks, TILE_ROWS),)](
        table,
        total,
        len(table),
        table.stride(0),
        blocks,
        BITS=bits,
        ROWS=TILE_ROWS,
        **ROUND_EACH_STEP,
    )
    return total


def _register(
    name: str, schema: str, run: Callable[..., Tensor], allocate: Callable[..., Tensor]
) -> Callable[[Tensor, int], Tensor]:
    """Make `run` an operation of torch, which for fake tensors only allocates its result."""
    torch.library.define(name, schema)
    torch.library.impl(name, ("cpu", "cuda"), run)
    torch.library.register_fake(name, allocate)
    operation: Callable[[Tensor, int], Tensor] = getattr(
        torch.ops.unisono, name.partition("::")[2]
    )
    return operation


# Returns `values` [N · BLOCK] as bytes, and leaves in `values` what these do not say.
quantize_with_residual = _register(
    "unisono::quantize_with_residual",
    "(Tensor(a!) values, int bits) -> Tensor",
    _quantize_with_residual,
    _new_message,
)
# Returns the sum [N · BLOCK] of the messages in `table`, added up in their order.
sum_messages = _register(
    "unisono::sum_messages",
    "(Tensor table, int bits) -> Tensor",
    _sum_messages,
    _new_total,
)
