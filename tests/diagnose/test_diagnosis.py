"""The promise of report.json, and inputs that are torn."""

import json
import math
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from diagnose.made_runs import (
    BEGAN,
    CONFIG,
    curve,
    ended,
    healthy_run,
    now,
    start,
    step,
    team,
    validated,
)
from unisono.diagnose.diagnosis import diagnose
from unisono.records.view import RunView

IDS = [
    "duration",
    "trained",
    "overfitting",
    "devices",
    "network",
    "learning_rate",
    "training_set",
    "checkpoint_files",
    "checkpoint_size",
    "step_time",
    "step_vs_network",
]
CAUSES = ["compute", "network", "straggler", "data", "evaluation", "checkpoint", "other"]


def as_json(report):
    return json.loads(msgspec.json.encode(report))


def test_the_json_has_the_promised_keys():
    report = as_json(diagnose(healthy_run(), now()))
    assert list(report) == [
        "format",
        "run",
        "headline",
        "bottleneck",
        "answers",
        "findings",
        "note",
    ]
    assert report["format"] == 1
    assert report["run"] == "runs/made"
    bottleneck = report["bottleneck"]
    keys = ["cause", "share", "shares", "culprit", "without_it_seconds_per_step"]
    assert list(bottleneck) == keys
    assert list(bottleneck["shares"]) == CAUSES
    assert [answer["id"] for answer in report["answers"]] == IDS
    keys = ["id", "question", "verdict", "summary", "values", "evidence", "advice"]
    assert all(list(answer) == keys for answer in report["answers"])
    assert all(isinstance(answer["evidence"], list) for answer in report["answers"])


def test_findings_have_the_promised_keys():
    run = healthy_run(ranks={0: tuple(step(n, data=0.5) for n in range(1, 201))})
    findings = as_json(diagnose(run, now()))["findings"]
    assert findings
    assert list(findings[0]) == ["id", "severity", "summary", "evidence", "advice"]


def test_a_healthy_run_has_no_findings():
    assert diagnose(healthy_run(), now()).findings == ()
    assert diagnose(healthy_run(steps=12), now()).findings == ()


def test_the_headline_is_one_sentence():
    headline = diagnose(healthy_run(), now()).headline
    assert headline.startswith("Finished after 3 min 21 s and 200 updates")
    assert headline.endswith("90 % of the time was arithmetic.")


def torn_runs():
    whole = healthy_run()
    nan = float("nan")
    two = team(lambda rank, n: {"exchange": 0.1}, ["a", "b"])
    yield "nothing", RunView(path=Path("x"))
    yield "config only", RunView(path=Path("x"), config=CONFIG)
    yield "one start", RunView(path=Path("x"), config=CONFIG, starts=(start(),))
    yield "one step", replace(whole, ranks={0: (step(1),)}, validations=(), ends=())
    yield "no start", replace(whole, starts=())
    yield "no steps", replace(whole, ranks={})
    yield "no validations", replace(whole, validations=())
    yield "no saves", replace(whole, saves=())
    yield "no corpus", replace(whole, corpus={})
    yield "foreign corpus", replace(whole, corpus={"splits": 3})
    yield "no config", replace(whole, config={})
    yield "strange config", replace(whole, config={"train": 3, "schedule": {"name": "?"}})
    yield "NaN at the end", replace(whole, validations=curve([3.0, 2.5, nan]))
    yield "NaN throughout", replace(whole, ranks={0: tuple(step(n, loss=nan) for n in (1, 2))})
    yield "a rank missing", replace(two, ranks={0: two.ranks[0]})
    yield "a rank short", replace(two, ranks={0: two.ranks[0], 1: two.ranks[1][:50]})
    yield "only rank 1", replace(two, ranks={1: two.ranks[1]}, starts=two.starts[1:])
    yield (
        "a clock of zeros",
        replace(whole, ranks={0: tuple(step(n, seconds=0.0) for n in (1, 2))}),
    )
    yield "time goes backwards", replace(whole, starts=(start(time=BEGAN + 999),))


@pytest.mark.parametrize(("run"), [pytest.param(r, id=name) for name, r in torn_runs()])
def test_torn_runs_are_answered(run):
    report = diagnose(run, now())
    assert [answer.id for answer in report.answers] == IDS
    assert all(answer.summary for answer in report.answers)
    shares = as_json(report)["bottleneck"]["shares"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert all(0 <= share <= 1 for share in shares.values())
    assert "NaN" not in msgspec.json.encode(report).decode()


def test_nothing_is_called_a_verdict_that_was_not_promised():
    promised = {
        "duration": {"finished", "stopped", "failed", "running", "unknown"},
        "trained": {"yes", "no", "diverged", "unknown"},
        "overfitting": {"yes", "no", "unknown"},
        "devices": {"waiting", "unknown"},
        "network": {"bottleneck", "not_bottleneck", "not_used", "unknown"},
    }
    for _, run in torn_runs():
        for answer in diagnose(run, now()).answers:
            assert answer.verdict in promised.get(answer.id, {"answered", "unknown"})


def test_a_start_that_stopped_well_is_added_up():
    first = [step(n) for n in range(1, 101)]
    second = [step(n, time=BEGAN + 1000 + n) for n in range(101, 201)]
    run = healthy_run(
        starts=(start(), start(step=100, time=BEGAN + 1100)),
        ranks={0: (*first, *second)},
        validations=(validated(20, 3.0),),
        saves=(),
        ends=(ended(100, "signal", BEGAN + 101), ended(200, time=BEGAN + 1201)),
    )
    answer = diagnose(run, BEGAN + 5000).answer("duration")
    assert answer.verdict == "finished"
    assert answer.values["seconds"] == pytest.approx(101 + 101)
    assert "at least" not in answer.summary


def test_long_runs_are_diagnosed_in_a_second_or_two():
    run = team(lambda rank, n: {"exchange": 0.05}, ["a", "a"], steps=10_000)
    assert diagnose(run, math.inf).answer("step_time").values["updates"] == 9_999
