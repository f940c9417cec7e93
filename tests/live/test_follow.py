"""A run that is read while it is written."""

import pytest

from diagnose.made_runs import BEGAN, ended, start, step, validated
from diagnose.made_samples import machine, samples
from unisono.errors import DataError
from unisono.records import follow
from unisono.records.events import RolledBack, to_line
from unisono.records.follow import Follower
from unisono.records.monitor_events import to_line as sampled_line
from unisono.records.view import read_run


@pytest.fixture
def run(tmp_path):
    (tmp_path / "events").mkdir()
    (tmp_path / "config.toml").write_text("[train]\nmax_steps = 200\n")
    return tmp_path


def tell(run, *events, rank=0, torn=b""):
    with (run / "events" / f"rank-{rank:04d}.jsonl").open("ab") as file:
        file.write(b"".join(to_line(event) + b"\n" for event in events) + torn)


def numbers(view, rank=0):
    return [event.step for event in view.ranks.get(rank, ())]


def test_each_look_sees_what_is_new_and_a_torn_line_when_it_is_whole(run):
    follower = Follower(run)
    assert follower.look().steps == ()
    line = to_line(step(2))
    tell(run, start(), step(1), torn=line[:40])
    assert numbers(follower.look()) == [1]
    with (run / "events" / "rank-0000.jsonl").open("ab") as file:
        file.write(line[40:] + b"\n")
    tell(run, start(rank=1), rank=1)
    view = follower.look()
    assert numbers(view) == [1, 2]
    assert [begun.rank for begun in view.starts] == [0, 1]


def test_it_sees_what_reading_it_all_at_once_does(run):
    follower = Follower(run)
    events = [start(), *(step(n) for n in range(1, 31)), validated(20, 2.5), validated(30, 2.4)]
    for event in (*events, start(step=20, time=BEGAN + 40), step(21), ended(21)):
        tell(run, event)
        follower.look()
    seen, whole = follower.look(), read_run(run)
    assert seen.steps == whole.steps
    assert seen.validations == whole.validations
    assert [s for s, _ in follower.outline] == numbers(whole)


def test_it_follows_what_the_machines_do(run):
    follower = Follower(run)
    tell(run, start(), step(1))
    log = run / "monitor" / "rank-0000.jsonl"
    log.parent.mkdir()
    for event in (machine(), *samples(count=5)):
        with log.open("ab") as file:
            file.write(sampled_line(event) + b"\n")
        seen = follower.look()
    assert seen.machines == read_run(run).machines
    assert len(seen.machines[0].samples) == 5
    most = follow.KEPT_SAMPLES
    with log.open("ab") as file:
        file.writelines(sampled_line(event) + b"\n" for event in samples(count=2 * most))
    assert len(follower.look().machines[0].samples) == most


def test_a_roll_back_undoes_what_it_undid(run):
    follower = Follower(run)
    tell(run, start(), *(step(n) for n in range(1, 11)))
    follower.look()
    back = RolledBack(time=BEGAN, step=10, to_step=4, reason="spike", rate_factor=0.5, number=1)
    tell(run, back, step(5))
    assert numbers(follower.look()) == [1, 2, 3, 4, 5]


def test_a_long_run_takes_little_room(run, monkeypatch):
    monkeypatch.setattr(follow, "OUTLINE", 50)
    follower = Follower(run)
    tell(run, start(), *(step(n) for n in range(1, 2001)))
    view = follower.look()
    assert numbers(view)[-1] == 2000
    assert len(view.steps) == follow.KEPT_STEPS
    assert 50 <= len(follower.outline) <= 100
    assert follower.outline[-1][0] > 1900


def test_of_a_continued_run_only_the_leading_process_is_read_from_its_beginning(
    run, monkeypatch
):
    monkeypatch.setattr(follow, "RECENT_BYTES", 300)
    monkeypatch.setattr(follow, "TAIL_BYTES", 1000)
    for rank in (0, 1):
        tell(run, start(rank), *(step(n) for n in range(1, 101)), rank=rank)
    follower = Follower(run, recent=True)
    for rank in (0, 1):
        tell(run, start(rank, step=100), *(step(n) for n in range(101, 121)), rank=rank)
    view = follower.look()
    assert numbers(view) == list(range(1, 121))
    assert numbers(view, 1) == list(range(101, 121))
    assert [(begun.rank, begun.step) for begun in view.starts] == [(0, 0), (0, 100), (1, 100)]
    tell(run, step(121), rank=1)
    assert numbers(follower.look(), 1)[-1] == 121


def test_another_run_in_the_same_place_is_read_from_its_beginning(run):
    follower = Follower(run)
    tell(run, start(), *(step(n) for n in range(1, 11)))
    follower.look()
    (run / "events" / "rank-0000.jsonl").unlink()
    tell(run, start(), step(1))
    assert numbers(follower.look()) == [1]


def test_what_is_not_a_run_is_said_to_be_none(tmp_path):
    with pytest.raises(DataError, match="not a run directory"):
        Follower(tmp_path)


def test_of_a_detached_run_of_which_nothing_is_here_it_says_how_to_fetch_it(tmp_path):
    (tmp_path / "stream").mkdir()
    with pytest.raises(DataError, match="launched on other machines") as refused:
        Follower(tmp_path).look()
    assert f"unisono attach {tmp_path}" in refused.value.fix
