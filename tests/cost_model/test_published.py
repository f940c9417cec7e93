"""The table of devices against what others have published.

NVIDIA/DeepLearningExamples, PyTorch/Translation/Transformer/README.md (fairseq's Transformer
big on WMT14 English-German, pytorch 22.06 container): target tokens a second on one GPU.
"""

import pytest

from unisono.cost_model.devices import (
    DEVICES,
    device_called,
    device_of,
    table_rate,
)
from unisono.models.settings import PRESETS, TransformerSettings, training_flops

BIG, VOCABULARY, LENGTH = TransformerSettings(**PRESETS["big"]), 33712, 28.0
PUBLISHED = [
    ("V100", "fp32", 8_742),  # 16 GB, 2,560 tokens at once
    ("V100", "fp16", 32_942),  # 16 GB, 5,120 tokens
    ("V100", "fp32", 9_827),  # 32 GB, 5,120 tokens
    ("V100", "fp16", 39_911),  # 32 GB, 10,240 tokens
    ("A100", "tf32", 51_057),  # 40 GB, 10,240 tokens
    ("A100", "fp16", 82_059),
]


def tokens_per_second(device, precision, model, vocabulary=VOCABULARY):
    flops = training_flops(model, vocabulary, 1, LENGTH, LENGTH) / LENGTH
    return device_called(device).rate(precision, model.width) / flops


@pytest.mark.parametrize(("device", "precision", "published"), PUBLISHED)
def test_fairseq_as_nvidia_publishes_it(device, precision, published):
    assert tokens_per_second(device, precision, BIG) == pytest.approx(published, rel=0.20)


# Launches and bytes of our own update counted on fake CUDA tensors (2026-11-17), base model.
COUNTED = [
    ("V100", "fp16", 83_000),
    ("V100", "fp32", 27_000),
    ("A100", "bf16", 159_000),
    ("A100", "tf32", 108_000),
]


@pytest.mark.parametrize(("device", "precision", "counted"), COUNTED)
def test_a_base_model_as_its_bytes_and_launches_say(device, precision, counted):
    base = TransformerSettings(**PRESETS["base"])
    assert tokens_per_second(device, precision, base, 32_000) == pytest.approx(counted, rel=0.2)


def test_a_wider_model_keeps_a_device_busier():
    for device in DEVICES.values():
        assert device.rate("fp16", 512) < device.rate("fp16", 1024) < device.peak("fp16")


@pytest.mark.parametrize(
    ("full", "name"),
    [
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("Tesla T4", "T4"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
    ],
)
def test_the_names_that_drivers_give(full, name):
    assert device_of(full) is DEVICES[name]
    assert table_rate(full, "auto") == DEVICES[name].rate("auto")


@pytest.mark.parametrize("full", ["NVIDIA L40S", "NVIDIA A10G", "cpu", ""])
def test_unknown_names_are_no_device(full):
    assert device_of(full) is None
    assert table_rate(full, "fp32") == 0.0


def test_auto_is_what_training_takes():
    fastest = {name: device.fastest for name, device in DEVICES.items()}
    assert fastest["P100"] == "fp32"
    assert fastest["V100"] == fastest["T4"] == "fp16"
    assert fastest["A100"] == fastest["H100"] == "bf16"
