from typing import get_args

import pytest

from unisono.schedules import (
    Constant,
    Cosine,
    InverseSqrt,
    LinearDecay,
    Schedule,
    Transformer,
)

SCHEDULES = {cls.__struct_config__.tag: cls for cls in get_args(Schedule)}

SHAPED = {
    "transformer": Transformer(scale=2.0, warmup_steps=100, d_model=512),
    "inverse_sqrt": InverseSqrt(peak=0.5, warmup_steps=100),
    "cosine": Cosine(total_steps=1000, peak=0.5, warmup_steps=100),
    "linear": LinearDecay(total_steps=1000, peak=0.5, warmup_steps=100),
    "constant": Constant(peak=0.5, warmup_steps=100),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_rises_to_its_peak_at_the_end_of_warmup(name):
    rate = SHAPED[name]
    rates = [rate(step) for step in range(1, 1001)]
    assert max(rates) == pytest.approx(rates[99])
    assert all(a < b for a, b in zip(rates[:99], rates[1:100], strict=True))
    assert all(a >= b for a, b in zip(rates[99:], rates[100:], strict=False))


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_warmup_starts_at_the_peak(name):
    cls = SCHEDULES[name]
    given = {"total_steps": 50} if name in ("cosine", "linear") else {}
    given |= {"d_model": 4} if name == "transformer" else {}
    rate = cls(warmup_steps=0, **given)
    assert rate(1) >= rate(2) > 0


def test_the_transformer_policy_is_the_formula_of_the_paper():
    rate = Transformer(scale=2.0, warmup_steps=8000, d_model=512)
    for step in (1, 100, 8000, 100_000):
        by_hand = 2.0 * 512**-0.5 * min(step**-0.5, step * 8000**-1.5)
        assert rate(step) == pytest.approx(by_hand, rel=1e-12)
    assert rate(8000) == pytest.approx(9.882e-4, rel=1e-3)


def test_inverse_sqrt_halves_when_the_step_count_quadruples():
    rate = InverseSqrt(peak=1.0, warmup_steps=10)
    assert rate(4000) == pytest.approx(rate(1000) / 2)


@pytest.mark.parametrize("cls", [Cosine, LinearDecay])
def test_those_with_an_end_reach_their_floor_and_stay(cls):
    rate = cls(total_steps=100, peak=1.0, floor=0.1, warmup_steps=10)
    assert rate(100) == pytest.approx(0.1)
    assert rate(5000) == pytest.approx(0.1)
    assert rate(55) == pytest.approx(0.55)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_formula_shows_the_configured_numbers(name):
    assert "100" in SHAPED[name].formula()
