"""Compile the kernels for GPUs from P100 to H100, and print what operations they have.

A line has the architecture, the bits, and the operations of both kernels.
"""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from unisono.comm.strategies import quantize_kernels

PACK = {
    "values": "*fp32",
    "message": "*u8",
    "blocks": "i32",
    "smallest": "fp32",
    "step": "fp32",
}
ADD_UP = {"table": "*u8", "total": "*fp32", "messages": "i32", "stride": "i32", "blocks": "i32"}
OPERATION = re.compile(r"\b(?:div|fma|mad|mul|add|sub|rcp)\.[\w.]*f32\b")


def operations(kernel, signature, bits, architecture):
    constants = {"BITS": bits, "ROWS": quantize_kernels.TILE_ROWS}
    source = ASTSource(
        kernel, {**signature, **dict.fromkeys(constants, "constexpr")}, constants
    )
    made = triton.compile(
        source, GPUTarget("cuda", architecture, 32), options=quantize_kernels.ROUND_EACH_STEP
    )
    return set(OPERATION.findall(made.asm["ptx"]))


def main():
    for architecture in (70, 75, 80, 86, 90):
        for bits in (16, 8, 4):
            found = operations(quantize_kernels._pack, PACK, bits, architecture)
            found |= operations(quantize_kernels._add_up, ADD_UP, bits, architecture)
            print(architecture, bits, *sorted(found))


if __name__ == "__main__":
    main()
