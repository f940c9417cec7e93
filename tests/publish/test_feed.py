"""The points of a run: all of them, each once, the same whoever reads and whenever."""

import pytest

from diagnose.made_runs import BEGAN, step, validated
from diagnose.made_samples import gpu, machine, samples
from publish.conftest import tell
from unisono.publish.feed import RunFeed
from unisono.records.events import Warned
from unisono.records.monitor_events import to_line

HOSTS = {0: "alpha (10.0.0.1)", 1: "beta"}


def read(feed, *, is_over=True):
    points = []
    while (batch := feed.next(HOSTS, BEGAN, is_over=is_over)).points:
        feed.taken(batch)
        points += batch.points
    return points, batch.offsets


def test_every_second_and_every_score_is_a_point(run):
    points, _ = read(RunFeed(run, {}))
    updates = [point for point in points if "training/loss" in point.values]
    assert [point.at for point in updates] == list(range(1, 31))  # each took a second
    assert updates[4].values["training/seconds_per_update"] == pytest.approx(1.0)
    scores = [point for point in points if "validation/bleu" in point.values]
    assert [
        (p.at, p.values["validation/bleu"], p.values["validation/chrf"]) for p in scores
    ] == [(20, 12.5, 40.0)]
    assert "test/bleu" not in {name for point in points for name in point.values}


def test_processes_and_machines_have_points_of_ten_seconds(run):
    points, _ = read(RunFeed(run, {}))
    for rank in (0, 1):
        name = f"rank_{rank}/compute_share"
        shares = [point.values[name] for point in points if name in point.values]
        assert len(shares) == 3
        assert all(0 < share <= 1 for share in shares)
    machines = [point for point in points if point.of_machine]
    assert [point.at for point in machines] == [10, 20, 29]
    values = machines[0].values
    assert values["machine/alpha__10.0.0.1_/gpu_0_power_watts"] == 150.0
    assert 0 < values["machine/alpha__10.0.0.1_/cpu_share"] < 1


def test_quick_updates_share_a_point(run):
    many = [step(number, seconds=0.125) for number in range(31, 55)]
    tell(run, *many)
    points, _ = read(RunFeed(run, {}))
    late = [p.at for p in points if p.at > 30 and "training/loss" in p.values]
    assert late == [38, 46, 54]


def test_whoever_reads_later_or_in_pieces_gets_the_same(run, monkeypatch):
    whole, offsets = read(RunFeed(run, {}))
    monkeypatch.setattr("unisono.publish.feed.MOST_POINTS", 2)
    pieces, at = [], {}
    while (batch := RunFeed(run, at).next(HOSTS, BEGAN, is_over=True)).points:
        pieces, at = pieces + list(batch.points), batch.offsets
        assert len(batch.points) <= 2
    assert sorted(p.id for p in pieces) == sorted(p.id for p in whole)
    assert {p.id: p for p in pieces} == {p.id: p for p in whole}
    assert at == offsets


def test_a_run_that_goes_on_gives_what_is_new_once(run):
    feed = RunFeed(run, {})
    before, _ = read(feed, is_over=False)
    tell(run, step(31), Warned(time=BEGAN + 31, step=31, message="x"), validated(31, 2.0))
    log = run / "monitor" / "rank-0000.jsonl"
    new = [machine(), *samples(count=45, gpus=[gpu(150.0)])]
    log.write_bytes(b"".join(to_line(event) + b"\n" for event in new))
    after, _ = read(feed, is_over=False)
    assert {point.at for point in after if "training/loss" in point.values} == {31}
    assert [point.at for point in after if point.of_machine] == [30, 40]
    ids = [point.id for point in before + after]
    assert len(set(ids)) == len(ids)


def test_a_torn_line_waits_until_it_is_whole(run):
    feed = RunFeed(run, {})
    read(feed)
    line = (run / "events" / "rank-0000.jsonl").read_bytes().splitlines(keepends=True)[5]
    path = run / "events" / "rank-0000.jsonl"
    path.write_bytes(path.read_bytes() + line[:20])
    assert read(feed)[0] == []
    path.write_bytes(path.read_bytes() + line[20:])
    assert len(read(feed)[0]) == 2  # of the update, and of the process


def test_a_loss_that_is_no_number_leaves_the_others(run):
    tell(run, step(31, loss=float("nan")))
    points, _ = read(RunFeed(run, {}))
    (last,) = [p for p in points if p.at == 31 and "training/learning_rate" in p.values]
    assert "training/loss" not in last.values
