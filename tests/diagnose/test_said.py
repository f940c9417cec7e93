"""How soon a run says what is wrong with it, as `benchmarks/diagnosis.py` counts it."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from diagnosis.course import Outcome
from diagnosis.judge import Judgement, false_alarms
from diagnosis.said import OVER, Live, Said, live
from diagnosis.scenarios import SCENARIOS
from diagnosis.table import legend, summary, table

from diagnose.made_runs import BEGAN, healthy_run, now, step
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.rules import RULES
from unisono.records.events import Found


def outcome(*found, seconds=1.0, steps=200, **notes):
    taken = {0: tuple(step(n, seconds=seconds) for n in range(1, steps + 1))}
    view = replace(healthy_run(ranks=taken), found=found)
    return Outcome(view, diagnose(view, now()), notes, ())


def said(number, name="bottleneck", about="network", seconds=1.0, over=False):
    return Found(
        time=BEGAN + number * seconds, step=number, id=name, about=about, summary="", over=over
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([said(31)], Live(Said(31, 31.0), True)),  # it looks when the update is over
        ([said(33)], Live(Said(33, 33.0), True)),
        ([said(60)], Live(Said(60, 60.0), False)),
        ([said(20, about="data"), said(45)], Live(Said(45, 45.0), True)),
        ([said(20, over=True)], Live(None, False)),
        ([said(30, "slow_direction", about="")], Live(Said(30, 30.0), True)),
        ([said(30, "padding", about="")], Live(None, False)),
        ([], Live(None, False)),
    ],
)
def test_the_first_right_word_counts(found, expected):
    assert live(outcome(*found), "slow_direction", "network") == expected


def test_a_slow_run_has_thirty_seconds_and_a_fast_one_fifty_updates():
    slow = outcome(said(10, seconds=3.0), seconds=3.0)
    assert live(slow, "", "network") == Live(Said(10, 30.0), True)
    late = outcome(said(52, seconds=3.0), seconds=3.0)
    assert live(late, "", "network").in_time is False
    fast = outcome(said(51, seconds=0.1), seconds=0.1)
    assert live(fast, "", "network").in_time is True


def test_time_counts_from_the_fault():
    early, late = (said(n, "burst_credits", "") for n in (20, 80))
    changed = outcome(early, late, changed_after_step=60)
    assert live(changed, "burst_credits") == Live(Said(20, 20.0), True)


def test_a_run_that_was_over_before_is_not_asked():
    assert live(outcome(steps=29), "", "network") == OVER


def test_a_late_rank_is_the_verdict_whichever_rank_it_is():
    assert live(outcome(said(40, about="straggler, rank 1")), "", "straggler").in_time


def test_findings_that_the_fault_does_not_explain_are_false_alarms():
    run = outcome(said(40, "memory", ""), said(40, "padding", "", over=True), said(40))
    assert false_alarms(run, ("more_machines",), ("more_machines",)) == ("memory (live)",)
    assert false_alarms(run, ("stolen_time", "memory"), ()) == ("memory", "stolen_time")


def test_the_table_has_a_cell_for_every_column_and_marks_what_is_false():
    rows = [
        Judgement(
            "",
            True,
            live=Live(Said(50, 21.0), True),
            also=("padding", "memory"),
            false=("memory",),
        ),
        Judgement("", True, live=Live(None, False)),
        Judgement("", True, live=OVER),
        Judgement("", True),
    ]
    head, rule, row = table({"quota": rows}, SCENARIOS)
    assert head.count("|") == rule.count("|") == row.count("|")
    assert "| 50 / 21 s, never, over | **memory**, padding |" in row
    text = "\n".join(summary({"quota": rows}))
    assert "50 updates or 30 s: 1 of 2" in text
    assert "does not explain: 1 (goal: 0)" in text


def test_how_a_fault_is_made_stands_beside_the_table():
    text = "\n".join(legend(SCENARIOS, SCENARIOS))
    assert "`quota`: the process is stopped and continued by signals" in text
    assert "`slow-disk`: after every fsync the process sleeps" in text


def test_only_real_findings_are_implied():
    assert {name for s in SCENARIOS.values() for name in s.implied} <= set(RULES)
