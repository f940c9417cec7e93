"""The formula for memory against tensors counted on fake CUDA tensors."""

from types import SimpleNamespace

import pytest
import torch

from unisono.errors import ConfigError
from unisono.models.memory import CONTEXT_BYTES, largest_tokens, training_bytes
from unisono.models.settings import PRESETS, TransformerSettings
from unisono.train.process_setup import explain_oom

BASE = TransformerSettings(**PRESETS["base"])
# Peaks of the rehearsal (tests/gpu, 2026-11-18): base, 32,000 words, one micro-batch, in GB.
REHEARSED = {
    ("fp16", 4096): 2.499,
    ("fp16", 16_384): 6.448,
    ("fp16", 25_000): 9.214,
    ("fp32", 4096): 3.187,
    ("fp32", 16_384): 9.594,
    ("fp32", 25_000): 14.216,
}


@pytest.mark.parametrize(("case", "rehearsed"), REHEARSED.items(), ids=str)
def test_the_formula_is_within_ten_per_cent_of_the_rehearsal(case, rehearsed):
    precision, tokens = case
    told = training_bytes(BASE, 32_000, tokens, precision) / 1e9
    assert told == pytest.approx(rehearsed, rel=0.10)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_largest_micro_batch_fits_and_a_larger_one_does_not(precision):
    most = largest_tokens(BASE, 32_000, precision, 16e9)
    assert training_bytes(BASE, 32_000, most, precision) + CONTEXT_BYTES <= 16e9
    assert training_bytes(BASE, 32_000, most + 512, precision) + CONTEXT_BYTES > 16e9
    assert largest_tokens(BASE, 32_000, precision, 1e9) == 0


FULL = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("ncclUnhandledCudaError\nLast error:\nCuda failure 2 'out of memory'"),
]


@pytest.mark.parametrize("error", FULL, ids=str)
@pytest.mark.parametrize(("others", "words"), [(0.0, ""), (6e9, "other programs hold 6.0 GB")])
def test_what_does_not_fit_is_said_with_what_does(monkeypatch, others, words, error):
    settings = SimpleNamespace(
        model=BASE,
        corpus=SimpleNamespace(vocabulary=32_000),
        train=SimpleNamespace(precision="fp16"),
        batching=SimpleNamespace(tokens_per_micro_batch=100_000),
    )
    free = int(16e9 - CONTEXT_BYTES - others)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, int(16e9)))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    with pytest.raises(ConfigError) as caught, explain_oom(settings, "cuda:0"):
        raise error
    most = largest_tokens(BASE, 32_000, "fp16", 16e9 - others)
    assert f"tokens_per_micro_batch = {most}`" in caught.value.fix
    assert words in caught.value.fix
    assert caught.value.exit_code == 2


def test_a_gpu_too_full_to_answer_is_said_all_the_same(monkeypatch):
    def full(device):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch.cuda, "mem_get_info", full)
    settings = SimpleNamespace(batching=SimpleNamespace(tokens_per_micro_batch=4096))
    with (
        pytest.raises(ConfigError, match="do not fit") as caught,
        explain_oom(settings, "cuda:0"),
    ):
        full("cuda:0")
    assert "lower `batching.tokens_per_micro_batch`" in caught.value.fix
