"""A training that says what it finds while it goes on."""

import time
from contextlib import closing
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from diagnose.made_runs import start, step
from support.tiny import tiny_settings
from unisono.cli import unisono
from unisono.comm.group import Solo
from unisono.config.load import to_toml
from unisono.live import live_diagnosis
from unisono.live.live_diagnosis import LiveDiagnosis, look_at
from unisono.records.events import Found, StepTaken, Warned, to_line
from unisono.records.view import read_run
from unisono.train.job import run_with

QUICK = {
    "batching": {"tokens_per_update": 200, "tokens_per_micro_batch": 200},
    "validation": {"every_steps": 1000, "bleu": False},
    "checkpoint": {"every_steps": 1000},
    "decoding": {"beam": 1},
}


@pytest.fixture(autouse=True)
def one_thread():
    """Threads that wait for each other take long for little on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def restless(monkeypatch):
    """Look often, for a fifth of the time: all the time would leave the training none."""
    monkeypatch.setattr(live_diagnosis, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(live_diagnosis, "MOST_OF_THE_TIME", 0.2)
    monkeypatch.setattr(live_diagnosis, "LAST_WORD_SECONDS", 60.0)


def quick(home, run, steps):
    return tiny_settings(home, run=str(run), train={"max_steps": steps}, **QUICK)


def looked_at(comm, settings, after_step=0.0):
    """Train; return what was said of it."""
    said = []
    with closing(LiveDiagnosis(Path(settings.run))) as one:
        for event in run_with(comm, settings):
            said += one.saw(event)
            if isinstance(event, StepTaken):
                time.sleep(after_step)
        said += one.finish()
    return said


def test_what_is_found_is_said_once_and_written_down(corpus_home, tmp_path, restless):
    run = tmp_path / "run"
    said = looked_at(Solo(), quick(corpus_home, run, 60))
    # Of the counting rhymes some are in the test set as well, and nobody took them out.
    assert {"bottleneck", "test_overlap"} <= {event.id for event in said}
    assert list(read_run(run).found) == said
    again = looked_at(Solo(), quick(corpus_home, run, 130))
    stands = set()
    for event in (*said, *again):
        assert ((event.id, event.about) in stands) == event.over, event
        stands ^= {(event.id, event.about)}
    assert list(read_run(run).found) == [*said, *again]


def test_a_run_of_few_updates_says_nothing(corpus_home, tmp_path, restless):
    assert looked_at(Solo(), quick(corpus_home, tmp_path / "run", 20)) == []


def test_what_goes_wrong_in_looking_is_said_and_stops_nothing(
    corpus_home, tmp_path, restless, monkeypatch
):
    def broken(view, now):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(live_diagnosis, "look_at", broken)
    (said,) = looked_at(Solo(), quick(corpus_home, tmp_path / "run", 60))
    assert isinstance(said, Warned)
    assert "ZeroDivisionError: oh" in said.message
    assert read_run(tmp_path / "run").ends


def test_what_is_still_being_looked_at_in_the_end_is_said(tmp_path, monkeypatch):
    def slow(view, now):
        time.sleep(0.3)
        return look_at(view, now)

    monkeypatch.setattr(live_diagnosis, "look_at", slow)
    (tmp_path / "events").mkdir()
    (tmp_path / "config.toml").write_text("")
    events = [start(), *(step(n) for n in range(1, 51))]
    lines = b"".join(to_line(event) + b"\n" for event in events)
    (tmp_path / "events" / "rank-0000.jsonl").write_bytes(lines)
    with closing(LiveDiagnosis(tmp_path)) as one:
        assert [found for event in events for found in one.saw(event)] == []
        assert [found.id for found in one.finish()] == ["bottleneck"]


def late_second(comm, home, run):
    settings = quick(Path(home), run, 60)
    late = 0.12 if comm.world.rank == 1 else 0.0  # much more than a busy machine adds
    return [(event.id, event.about) for event in looked_at(comm, settings, late)]


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_a_late_process_is_named_while_the_run_goes_on(ranks, corpus_home, tmp_path):
    leading, other = ranks.run(late_second, str(corpus_home), str(tmp_path / "run"))
    assert ("bottleneck", "straggler, rank 1") in leading
    assert ("straggler", "rank 1") in leading
    assert other == []


@pytest.mark.ranks
def test_it_stands_in_the_log_in_a_line(corpus_home, tmp_path):
    settings = quick(corpus_home, tmp_path / "run", 60)
    config = tmp_path / "x.toml"
    config.write_text(to_toml(settings))
    done = CliRunner().invoke(unisono, ["train", str(config)])
    lines = [line for line in done.stderr.splitlines() if line.startswith("found at step ")]
    (found,) = [e for e in read_run(tmp_path / "run").found if e.id == "bottleneck"]
    assert isinstance(found, Found)
    (line,) = [line for line in lines if found.summary in line]
    assert line.endswith(found.advice)
    assert "% of the time" in line
