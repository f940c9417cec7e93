"""Arithmetic against real models."""

import msgspec
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from unisono.models.settings import (
    PRESETS,
    TransformerSettings,
    matrix_shapes,
    parameter_count,
    rounded_vocabulary,
    training_flops,
)
from unisono.models.transformer import build_model, weight_shapes


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("source", [0, 555, 1003])
def test_parameters_are_those_of_the_real_model(preset, tied, norm, source):
    settings = TransformerSettings(**PRESETS[preset], tied_embeddings=tied, norm=norm)
    with torch.device("meta"):
        model = build_model(settings, 1003, source)
    real = sum(weight.numel() for weight in model.parameters())
    assert parameter_count(settings, 1003, source) == real


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@pytest.mark.parametrize("positions", ["sinusoid", "learned", "rotary"])
def test_parameters_are_those_of_the_real_model_with_every_choice(activation, positions):
    settings = TransformerSettings(
        activation=activation, positions=positions, max_positions=77, decoder_layers=3
    )
    with torch.device("meta"):
        model = build_model(settings, 1003)
    real = sum(weight.numel() for weight in model.parameters())
    assert parameter_count(settings, 1003) == real


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
@pytest.mark.parametrize("positions", ["sinusoid", "learned"])
@pytest.mark.parametrize(("tied", "source"), [(True, 0), (True, 555), (False, 555)])
def test_matrices_are_those_of_the_real_model(activation, positions, tied, source):
    settings = TransformerSettings(
        activation=activation,
        positions=positions,
        max_positions=77,
        tied_embeddings=tied,
        encoder_layers=2,
        decoder_layers=3,
    )
    shapes = weight_shapes(settings, 1003, source).values()
    real = sorted(shape for shape in shapes if len(shape) == 2)
    assert sorted(matrix_shapes(settings, 1003, source)) == real


def test_base_is_the_model_everybody_knows():
    """Base of 2017 with 37000 shared pieces is always quoted with 63 to 65 million."""
    assert 62e6 < parameter_count(TransformerSettings(), 37000) < 65e6


@pytest.mark.parametrize(("count", "rows"), [(1, 8), (8, 8), (9, 16), (32000, 32000)])
def test_rows_are_the_next_multiple_of_eight(count, rows):
    assert rounded_vocabulary(count) == rows


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@pytest.mark.parametrize("positions", ["sinusoid", "learned", "rotary"])
def test_operations_are_those_torch_counts(activation, positions):
    settings = TransformerSettings(
        width=32,
        heads=2,
        inner=48,
        encoder_layers=3,
        decoder_layers=2,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation=activation,
        positions=positions,
        max_positions=9,
    )
    model = build_model(settings, 100)
    source, target = torch.ones(5, 7, dtype=torch.long), torch.ones(5, 9, dtype=torch.long)
    # The counter knows plain products of torch, not the fused kernel of the CPU, nor numpy.
    model.double()
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(source, target)
    assert training_flops(settings, 100, 5, 7, 9) == 3 * counter.get_total_flops()


def test_work_grows_with_the_sentences():
    settings = msgspec.convert(PRESETS["tiny"], TransformerSettings)
    once = training_flops(settings, 2000, 10, 20, 20)
    assert training_flops(settings, 2000, 30, 20, 20) == pytest.approx(3 * once)
