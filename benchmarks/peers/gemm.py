"""How fast this machine multiplies matrices of a model's sizes, now: prints GFLOP/s.

python gemm.py WIDTH INNER VOCABULARY ROWS
"""

import sys
import time

import torch

SECONDS_EACH = 0.6


def probe(rows: int, inner: int, columns: int) -> float:
    """Return the best GFLOP/s of a few products of this size."""
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    out = torch.empty(rows, columns)
    best, until = 0.0, time.perf_counter() + SECONDS_EACH
    while time.perf_counter() < until:
        began = time.perf_counter()
        torch.mm(left, right, out=out)
        best = max(best, 2e-9 * rows * inner * columns / (time.perf_counter() - began))
    return best


def main() -> None:
    """Print the best rate over the products of one model."""
    width, inner, vocabulary, rows = map(int, sys.argv[1:])
    torch.set_num_threads(2)
    sizes = [(width, width), (width, inner), (inner, width), (width, vocabulary)]
    print(max(probe(rows, *size) for size in sizes))


if __name__ == "__main__":
    main()
