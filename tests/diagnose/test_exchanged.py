"""What an update sends, by the strategy that the processes say they used."""

from dataclasses import replace

import msgspec
import pytest

from diagnose.made_runs import PARAMETERS, now, team
from unisono.diagnose.case import open_case
from unisono.diagnose.exchanged import arithmetic, expected_bytes


def made(hosts=("a", "b"), **strategy):
    run = team(lambda *_: {"exchange": 0.1}, hosts=hosts, steps=10)
    starts = tuple(msgspec.structs.replace(start, **strategy) for start in run.starts)
    return open_case(replace(run, starts=starts), now())


@pytest.mark.parametrize(
    ("strategy", "bytes_a_weight"),
    [
        ({"strategy": "ddp"}, 4.0),
        ({"strategy": "compressed", "bits": 16}, 2 + 4 / 256),
        ({"strategy": "compressed", "bits": 4}, 0.5 + 4 / 256),
        ({"strategy": "diloco", "bits": 8, "every": 5}, (1 + 4 / 256) / 5),
    ],
)
def test_each_strategy_sends_what_its_formula_says(strategy, bytes_a_weight):
    case = made(**strategy)
    assert expected_bytes(case) == pytest.approx(PARAMETERS * bytes_a_weight, rel=1e-4)
    assert " an update, each way" in arithmetic(case)


def test_what_is_not_computed_is_not_invented():
    case = made(strategy="powersgd")
    assert expected_bytes(case) == 0
    assert "is not computed" in arithmetic(case)


@pytest.mark.parametrize(
    ("hosts", "parties"), [("aabb", 2), ("abab", 2), ("aab", 2), ("abcd", 4), ("aaaa", 4)]
)
def test_a_machine_sends_its_packed_sum_once(hosts, parties):
    case = made(tuple(hosts), strategy="compressed", bits=8)
    once = PARAMETERS * (1 + 4 / 256)
    assert expected_bytes(case) == pytest.approx((parties - 1) * once, rel=1e-4)
    assert f"({parties} − 1) · 8 bits" in arithmetic(case)
