"""Numbers in 32, 16, 8 or 4 bits each, as bytes.

n numbers make N blocks of BLOCK, the last padded. Below 32 bits a block has one factor: its
largest number over the largest that fits, as a bfloat16. In 8 and 4 bits each number is sent as
the nearest whole multiple of it, in 16 as a float16 times it, which is finer than a bfloat16. A
block that holds a number that is not finite has no finite factor, so nothing of it comes out
finite: the receiver notices.

Blocks are short. A number that is small beside the largest of its block is rarely sent, then
all at once, and Adam takes that for noise: with 256 numbers a block, two rows of a small
embedding shared one, and the rarer word was learnt too slowly
(docs/explanations/strategies.md, "Price in quality").

These are torch's operations, for CPUs and for GPUs without triton. Every way of packing comes
to the same bits; `quantize_kernels.py` has a faster one.
"""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from unisono.cost_model.exchange import QUANTIZED_BLOCK as BLOCK

Bits = Literal[4, 8, 16, 32]
FACTOR_BYTES = 2
BLOCKS_AT_ONCE = 8192  # 2 MB
LARGEST_UNIT = {16: 2.0**15, 8: 127.0, 4: 7.0}
_KINDS = {16: torch.float16, 8: torch.int8}
# Below this a factor's inverse would overflow. Such a block is sent as zeros.
SMALLEST = 1e-30


def padded(numbers: int, shares: int = 1) -> int:
    """Return `numbers` rounded up to whole blocks, as many for each of `shares`."""
    each = BLOCK * shares
    return -(-numbers // each) * each


def message_bytes(numbers: int, bits: int) -> int:
    """Return the length of the message that `numbers`, rounded up to whole blocks, make."""
    blocks = padded(numbers) // BLOCK
    return blocks * _block_bytes(bits)


def quantize(values: Tensor, bits: Bits) -> Tensor:
    """Return float32 `values` [N · BLOCK] as bytes."""
    if bits == 32:
        return values.clone().view(torch.uint8)
    blocks = values.view(-1, BLOCK)
    message = torch.empty(
        message_bytes(values.numel(), bits), dtype=torch.uint8, device=values.device
    )
    factors, body = _parts(message, bits)
    for some in _portions(blocks):
        _pack_blocks(blocks[some], factors[some], body[some], bits)
    return message


def dequantize(message: Tensor, bits: Bits) -> Tensor:
    """Return the float32 numbers [N · BLOCK] of `message`."""
    if bits == 32:
        return message.view(torch.float32).clone()
    factors, body = _parts(message, bits)
    blocks = torch.empty(len(factors), BLOCK, device=message.device)
    for some in _portions(blocks):
        _unpack_blocks(factors[some], body[some], blocks[some], bits)
    return blocks.view(-1)


def add_dequantized(total: Tensor, message: Tensor, bits: Bits, sign: int = 1) -> None:
    """Add the numbers of `message` to `total` [N · BLOCK], or with `sign` -1 take them off.

    They are multiplied, rounded, added and rounded again. A fused multiply-add is faster, but
    rounds once, and not every processor has it: all must come to the same bits.
    """
    if bits == 32:
        total.add_(message.view(torch.float32), alpha=sign)
        return
    factors, body = _parts(message, bits)
    blocks = total.view(-1, BLOCK)
    room = torch.empty_like(blocks if blocks.is_cuda else blocks[:BLOCKS_AT_ONCE])
    for some in _portions(blocks):
        units = room[: len(factors[some])]
        _unpack_blocks(factors[some], body[some], units, bits)
        blocks[some].add_(units, alpha=sign)


def split_message(message: Tensor, shares: int, bits: Bits) -> Tensor:
    """Return `message` as one message for each of `shares`, in rows."""
    factors, body = _parts(message, bits) if bits < 32 else (message[:0], message)
    factors = factors.view(torch.uint8)
    return torch.cat([factors.view(shares, -1), body.view(shares, -1)], dim=1)


def join_messages(rows: Tensor, bits: Bits) -> Tensor:
    """Return as one message what `split_message` made rows of."""
    if bits == 32:
        return rows.reshape(-1)
    ends = rows.size(1) // _block_bytes(bits) * FACTOR_BYTES
    return torch.cat([rows[:, :ends].reshape(-1), rows[:, ends:].reshape(-1)])


def _portions(blocks: Tensor) -> Iterator[slice]:
    """Yield so many blocks at a time that intermediate results stay in the cache.

    A GPU takes all at once: there each operation costs a launch.
    """
    at_once = len(blocks) if blocks.is_cuda else BLOCKS_AT_ONCE
    for start in range(0, len(blocks), at_once):
        yield slice(start, start + at_once)


def _pack_blocks(blocks: Tensor, factors: Tensor, body: Tensor, bits: Bits) -> None:
    units = blocks.abs()
    largest = units.amax(dim=1, keepdim=True).clamp_(min=SMALLEST)
    # Not a quotient: torch divides by a constant exactly on a CPU, but like this on a GPU.
    factors.copy_(largest * (1 / LARGEST_UNIT[bits]))
    # Rounded, it may be too small by 1/256 at most: 127 becomes 127.496, which is 127 again.
    torch.mul(blocks, 1.0 / factors.float(), out=units)
    if bits == 16:
        body.view(_KINDS[16]).copy_(units)
    elif bits == 8:
        body.view(_KINDS[8]).copy_(units.round_())
    else:
        # A byte holds two numbers half a block apart, each raised to 1 … 15. On a CPU torch
        # makes them signed bytes eight times as fast as bytes without a sign.
        half_bytes = units.round_().add_(8.0).to(torch.int8).view(torch.uint8)
        torch.bitwise_left_shift(half_bytes[:, BLOCK // 2 :], 4, out=body)
        body.bitwise_or_(half_bytes[:, : BLOCK // 2])


def _unpack_blocks(factors: Tensor, body: Tensor, blocks: Tensor, bits: Bits) -> None:
    if bits >= 8:
        blocks.copy_(body.view(_KINDS[bits]))
    else:
        blocks[:, : BLOCK // 2].copy_(body & 15)
        blocks[:, BLOCK // 2 :].copy_(body >> 4)
        blocks.sub_(8.0)
    blocks.mul_(factors.float())


def _block_bytes(bits: int) -> int:
    return BLOCK * bits // 8 + (FACTOR_BYTES if bits < 32 else 0)


def _parts(message: Tensor, bits: Bits) -> tuple[Tensor, Tensor]:
    """Return the factors [N, 1] and the numbers [N, bytes of a block] within `message`."""
    blocks = message.numel() // _block_bytes(bits)
    ends = blocks * FACTOR_BYTES  # the factors come first: there they are aligned
    factors = message[:ends].view(torch.bfloat16).view(blocks, 1)
    return factors, message[ends:].view(blocks, -1)
