"""Real runs with a known fault: a small part of `benchmarks/diagnosis.py`.

Tests share the machine, so that a rank may truly be late; how far a share is off is measured by
the benchmark, on a machine that does nothing else.
"""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from diagnosis.course import Course, make_run
from diagnosis.judge import late

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able")]

QUICK = {
    "model": {"width": 32, "heads": 2, "inner": 64},
    "batching": {"tokens_per_update": 512, "tokens_per_micro_batch": 256},
}
LARGE_MODEL = {"batching": QUICK["batching"]}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("scenarios")


def test_a_slow_collate_function_on_one_rank_is_named_with_the_rank(home):
    course = Course(
        steps=24, tables=QUICK, faults={"slow_collate": {"seconds": 0.25, "ranks": [1]}}
    )
    outcome = make_run(course, home, "slow-input-one", 1)
    assert outcome.report.bottleneck.cause == "straggler"
    assert late(1, "its data came late")(outcome), outcome.report


def test_a_slow_link_is_named_with_its_rate_and_at_least_what_its_bytes_take(home):
    course = Course(steps=12, link="100mbit", tables=LARGE_MODEL)
    outcome = make_run(course, home, "slow-link", 1)
    bottleneck, network = outcome.report.bottleneck, outcome.report.answer("network")
    assert bottleneck.cause == "network"
    assert network.verdict == "bottleneck"
    # Never more than it carries, and less only where a busy machine does not use it.
    assert 0.7 * 100 <= network.values["link_mbit_per_s"] <= 100
    on_the_wire = network.values["expected_bytes_per_step"] * 8 / 100e6
    # The wire is that of the rank which waited least: it may have hidden more than others.
    rows = zip(*outcome.view.ranks.values(), strict=True)
    hidden = sum(max(record.hidden for record in row) for row in rows)
    least = (len(outcome.view.steps) * on_the_wire - hidden) / outcome.wall
    assert least <= bottleneck.share <= 1.0
