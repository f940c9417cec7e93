"""What packing costs the processor: nanoseconds a number, beside a plain copy.

python benchmarks/packing.py
"""

import time
from collections.abc import Callable

import torch

from unisono.comm.strategies.quantize import Bits, add_dequantized, dequantize, padded, quantize
from unisono.train.process_setup import keep_freed_memory

NUMBERS = padded(6_500_000)  # a bucket of 25 MB
ROUNDS = 15


def nanoseconds(action: Callable[[], object]) -> float:
    """Return the shortest time of `action` for each number: the least disturbed one."""
    action()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times) / NUMBERS * 1e9


def whole_update(gradient: torch.Tensor, wanted: torch.Tensor, bits: Bits) -> None:
    """Do what one process does with its bucket if there are two."""
    torch.add(gradient, gradient, out=wanted)
    message = quantize(wanted, bits)
    add_dequantized(wanted, message, bits, sign=-1)
    total = dequantize(message, bits)
    add_dequantized(total, message, bits)


def main() -> None:
    """Print a line for each number of bits."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as in training
    numbers = torch.randn(NUMBERS)
    room = torch.empty_like(numbers)
    print(f"copy {nanoseconds(lambda: room.copy_(numbers)):.2f}")
    choices: tuple[Bits, ...] = (16, 8, 4)
    for bits in choices:
        message = quantize(numbers, bits)
        packing = nanoseconds(lambda b=bits: quantize(numbers, b))
        unpacking = nanoseconds(lambda m=message, b=bits: dequantize(m, b))
        update = nanoseconds(lambda b=bits: whole_update(numbers, room, b))
        print(f"{bits} bits: pack {packing:.2f}, unpack {unpacking:.2f}, update {update:.2f}")


if __name__ == "__main__":
    main()
