"""What an update sends, by the strategy that the processes say they used."""

import math
from dataclasses import replace

import msgspec
import pytest

from diagnose.made_runs import CORPUS, PARAMETERS, now, team
from unisono.diagnose.case import open_case
from unisono.diagnose.evidence.expected_bytes import arithmetic, expected_bytes
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import weight_shapes


def made(hosts=("a", "b"), **strategy):
    run = team(lambda *_: {"exchange": 0.1}, hosts=hosts, steps=10)
    starts = tuple(msgspec.structs.replace(start, **strategy) for start in run.starts)
    return open_case(replace(run, starts=starts), now())


@pytest.mark.parametrize(
    ("strategy", "bytes_a_weight"),
    [
        ({"strategy": "ddp"}, 4.0),
        ({"strategy": "compressed", "bits": 16}, 2 + 2 / 64),
        ({"strategy": "compressed", "bits": 4}, 0.5 + 2 / 64),
        ({"strategy": "diloco", "bits": 8, "every": 5}, (1 + 2 / 64) / 5),
    ],
)
def test_each_strategy_sends_what_its_formula_says(strategy, bytes_a_weight):
    case = made(**strategy)
    assert expected_bytes(case) == pytest.approx(PARAMETERS * bytes_a_weight, rel=1e-4)
    assert " an update, each way" in arithmetic(case)


MODEL = {"width": 64, "inner": 256, "encoder_layers": 2, "decoder_layers": 2}


def narrow(model=MODEL, **sync):
    """A run of 200 updates by PowerSGD, and the truth: a model of torch with these sizes."""
    run = team(lambda *_: {"exchange": 0.1}, hosts=("a", "b"), steps=200)
    config = {**run.config, "model": model, "sync": {"warmup_steps": 0, **sync}}
    settings = TransformerSettings(**model)
    weights = weight_shapes(settings, CORPUS["vocabulary"]).values()
    count = sum(math.prod(shape) for shape in weights)
    starts = tuple(
        msgspec.structs.replace(start, strategy="powersgd", parameters=count)
        for start in run.starts
    )
    return open_case(replace(run, starts=starts, config=config), now()), weights


@pytest.mark.parametrize("rank", [1, 4, 24])
def test_powersgd_sends_narrow_matrices_where_they_are_less(rank):
    case, weights = narrow(low_rank=rank)
    numbers = 0
    for shape in weights:
        whole, least = math.prod(shape), min(shape)
        factors = sum(shape) * min(rank, least)
        numbers += factors if len(shape) == 2 and 2 * factors < whole else whole
    assert numbers < sum(map(math.prod, weights))
    assert expected_bytes(case) == 4 * numbers
    assert f"{numbers:,} numbers" in arithmetic(case)


def test_the_first_updates_of_powersgd_are_exact():
    case, weights = narrow(warmup_steps=50)
    late, whole = narrow()[0], 4 * sum(map(math.prod, weights))
    assert expected_bytes(case) == pytest.approx(
        0.25 * whole + 0.75 * expected_bytes(late), abs=1
    )
    assert "25% of the updates were exact" in arithmetic(case)


def test_what_is_not_known_is_not_invented():
    case = made(strategy="powersgd")
    broken = replace(case, run=replace(case.run, config={"model": {"no": "such"}}))
    for one in (broken, replace(case, run=replace(case.run, corpus={}))):
        assert expected_bytes(one) == 0
        assert "is unknown" in arithmetic(one)


@pytest.mark.parametrize("phases", [0, 1, 2])
@pytest.mark.parametrize(
    ("hosts", "parties"), [("aabb", 2), ("abab", 2), ("aab", 2), ("abcd", 4), ("aaaa", 4)]
)
def test_a_machine_sends_its_packed_sum_once(hosts, parties, phases):
    case = made(tuple(hosts), strategy="compressed", bits=8, phases=phases)
    once = PARAMETERS * (1 + 2 / 64)
    two = phases == 2 or (phases == 0 and parties > 2)
    times = 2 * (parties - 1) / parties if two else parties - 1
    assert expected_bytes(case) == pytest.approx(times * once, rel=1e-4)
    words = f"2 · ({parties} − 1)/{parties}" if two else f"({parties} − 1)"
    assert arithmetic(case).startswith(f"{words} · 8 bits")


def test_a_run_of_an_older_version_summed_in_one_phase():
    case = made(tuple("abcd"), strategy="compressed", bits=8)
    assert expected_bytes(case) == pytest.approx(3 * PARAMETERS * (1 + 2 / 64), rel=1e-4)
