"""The fused kernels come to the bits of torch's operations.

No GPU is needed: triton's interpreter runs them on CPUs (`TRITON_INTERPRET` in conftest.py),
and its compiler, asked in a process of its own, shows what a GPU would do. On a machine with a
GPU these tests run there.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unisono.comm.strategies import packed_gather
from unisono.comm.strategies.packed_gather import kernels_for, sum_gathered
from unisono.comm.strategies.quantize import (
    FACTOR_BYTES,
    SMALLEST,
    add_dequantized,
    padded,
    quantize,
)
from unisono.cost_model.exchange import QUANTIZED_BLOCK as BLOCK

# The interpreter computes with numpy, which warns of infinity times zero.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")

BITS = [16, 8, 4]
ODD = [float("nan"), float("inf"), -float("inf")]
HERE = Path(__file__).parent


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="module")
def kernels():
    pytest.importorskip("triton", reason="triton is missing (.ci/run installs it)")
    from unisono.comm.strategies import quantize_kernels

    return quantize_kernels


def numbers(blocks, seed=0, exponents=(-12, 6)):
    """Return blocks whose numbers differ in size from block to block."""
    generator = torch.Generator().manual_seed(seed)
    sizes = 10.0 ** torch.randint(*exponents, (blocks, 1), generator=generator)
    return (torch.randn(blocks, BLOCK, generator=generator) * sizes).view(-1).to(DEVICE)


def same_bits(found, expected, kind):
    """Compare bit by bit; any nan is like any other, and torch itself writes several."""
    assert found.shape == expected.shape
    found, expected = found.view(kind), expected.view(kind)
    if kind.is_floating_point:
        assert torch.equal(found.isnan(), expected.isnan())
        found, expected = (t.nan_to_num(0.0).view(torch.uint8) for t in (found, expected))
    assert torch.equal(found, expected)


def same_message(found, expected, bits):
    ends = found.numel() // (FACTOR_BYTES + BLOCK * bits // 8) * FACTOR_BYTES
    same_bits(found[:ends], expected[:ends], torch.bfloat16)
    same_bits(found[ends:], expected[ends:], torch.float16 if bits == 16 else torch.uint8)


def both_ways(kernels, values, bits):
    """Quantize by kernel and by torch; compare; return the message."""
    values = values.to(DEVICE)
    fused, residual = values.clone(), values.clone()
    message = quantize(residual, bits)
    add_dequantized(residual, message, bits, sign=-1)
    same_message(kernels.quantize_with_residual(fused, bits), message, bits)
    same_bits(fused, residual, torch.float32)
    return message


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("blocks", [1, 2, 31, 32, 33, 200])
def test_messages_and_residuals_have_the_same_bits(kernels, bits, blocks):
    both_ways(kernels, numbers(blocks), bits)


@pytest.mark.parametrize("bits", BITS)
def test_tiny_huge_and_equal_numbers_have_the_same_bits(kernels, bits):
    both_ways(kernels, numbers(200, exponents=(-44, 38)), bits)
    both_ways(kernels, torch.zeros(3 * BLOCK), bits)
    both_ways(kernels, -torch.zeros(3 * BLOCK), bits)
    for one in (1e-45, SMALLEST / 2, SMALLEST, SMALLEST * 2, 1.0, -3e38):
        both_ways(kernels, torch.full((BLOCK,), one), bits)


@pytest.mark.parametrize("bits", BITS)
def test_ties_are_rounded_to_even(kernels, bits):
    halves = torch.arange(-7.0, 7.5, 0.5).repeat(10)[: 4 * BLOCK]
    halves[::BLOCK] = 7.0
    both_ways(kernels, halves, bits)
    both_ways(kernels, halves * (127 / 7), bits)


def test_every_factor_is_rounded_alike(kernels):
    """A bfloat16 has 128 steps between 1 and 2: half of these sizes are ties."""
    sizes = torch.arange(256.0, 512.0) / 256
    both_ways(kernels, torch.repeat_interleave(sizes, BLOCK), 16)
    both_ways(kernels, torch.repeat_interleave(sizes * (127 / 256), BLOCK), 8)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [0, 31, 32, 70, 199])
def test_what_is_not_finite_is_packed_alike(kernels, bits, odd, place):
    values = numbers(4)
    values[place] = odd
    message = both_ways(kernels, values, bits)
    total = kernels.sum_messages(torch.stack([message, message]), bits)
    assert not total[place].isfinite()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("senders", [1, 2, 5])
def test_sums_have_the_same_bits(kernels, bits, senders):
    rows = [quantize(numbers(35, seed=s), bits) for s in range(senders)]
    fused = kernels.sum_messages(torch.stack(rows), bits)
    same_bits(fused, sum_gathered(rows, bits), torch.float32)


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=100),
    st.sampled_from(BITS),
)
def test_any_numbers_have_the_same_bits(kernels, values, bits):
    filled = torch.zeros(padded(len(values)))
    filled[: len(values)] = torch.tensor(values)
    both_ways(kernels, filled, bits)


@pytest.mark.ranks
def test_a_gpu_rounds_each_step_of_the_kernels(kernels):
    """For every architecture: no fused product, no flushed number, no approximate quotient."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, HERE / "compile_kernels.py"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    made = [line.split() for line in done.stdout.splitlines()]
    assert len(made) == len(BITS) * 5
    for _, _, *operations in made:
        assert {"div.rn.f32", "mul.rn.f32"} <= set(operations)
        assert not [o for o in operations if o.startswith("fma") or "ftz" in o or "approx" in o]


@pytest.fixture
def gpus(monkeypatch):
    """A stand-in for the answers of a machine with a GPU that triton knows."""
    kernels_for.cache_clear()
    monkeypatch.setattr(packed_gather, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    asked = []
    monkeypatch.setattr(packed_gather, "import_module", asked.append)
    yield asked
    kernels_for.cache_clear()


def test_torchs_operations_do_on_cpus_without_triton_and_on_old_gpus(gpus, monkeypatch):
    assert kernels_for(torch.device("cpu")) is None
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (6, 0))
    assert kernels_for(torch.device("cuda:0")) is None
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    monkeypatch.setattr(packed_gather, "find_spec", lambda name: None)
    assert kernels_for(torch.device("cuda:1")) is None
    assert gpus == []


def test_torchs_operations_do_where_a_kernel_cannot_run(gpus):
    """Here none can: torch has no CUDA. The rehearsal shows a machine where they do."""
    assert kernels_for(torch.device("cuda:0")) is None
    assert gpus == [packed_gather.KERNELS]
