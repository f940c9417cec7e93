"""A training that says what it finds while it goes on."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.tiny import tiny_settings
from unisono.cli import unisono
from unisono.comm.solo import Solo
from unisono.config.write import to_toml
from unisono.records.events import Found, StepTaken, Warned
from unisono.records.view import read_run
from unisono.train.job import run_with
from unisono.watch import onlooker
from unisono.watch.onlooker import Onlooker

CLIPPED = {"max_steps": 320, "clip_norm": 1e-4}
RARELY = {"validation": {"every_steps": 1000}, "checkpoint": {"every_steps": 1000}}


@pytest.fixture
def restless(monkeypatch):
    """Look as often as there is something to look at."""
    monkeypatch.setattr(onlooker, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(onlooker, "MOST_OF_THE_TIME", 1e9)


def looked_at(comm, settings, after_step=0.0):
    """Train; return what was said of it."""
    said = []
    with Onlooker(Path(settings.run)) as one:
        for event in run_with(comm, settings):
            said += one.saw(event)
            if isinstance(event, StepTaken):
                time.sleep(after_step)
        said += one.finish()
    return said


def test_what_is_found_is_said_once_and_written_down(corpus_home, tmp_path, restless):
    run = tmp_path / "run"
    said = looked_at(Solo(), tiny_settings(corpus_home, run=run, train=CLIPPED, **RARELY))
    assert [event.id for event in said].count("always_clipped") == 1
    assert [event.id for event in said].count("bottleneck") >= 1
    assert list(read_run(run).found) == said
    more = tiny_settings(corpus_home, run=run, train={**CLIPPED, "max_steps": 640}, **RARELY)
    again = looked_at(Solo(), more)
    assert "always_clipped" not in [event.id for event in again]
    assert list(read_run(run).found) == [*said, *again]


def test_a_run_of_few_updates_says_nothing(corpus_home, tmp_path, restless):
    settings = tiny_settings(corpus_home, run=tmp_path / "run", train={"max_steps": 20})
    assert looked_at(Solo(), settings) == []


def test_what_goes_wrong_in_looking_is_said_and_stops_nothing(
    corpus_home, tmp_path, restless, monkeypatch
):
    def broken(view, now):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(onlooker, "look_at", broken)
    settings = tiny_settings(corpus_home, run=tmp_path / "run", train={"max_steps": 60})
    (said,) = looked_at(Solo(), settings)
    assert isinstance(said, Warned)
    assert "ZeroDivisionError: oh" in said.message
    assert read_run(tmp_path / "run").ends


def late_second(comm, home, run):
    settings = tiny_settings(Path(home), run, train={"max_steps": 70}, **RARELY)
    late = 0.02 if comm.world.rank == 1 else 0.0
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
    settings = tiny_settings(
        corpus_home, run=tmp_path / "run", train={"max_steps": 60}, **RARELY
    )
    config = tmp_path / "x.toml"
    config.write_text(to_toml(settings))
    done = CliRunner().invoke(unisono, ["train", str(config)])
    lines = [line for line in done.stderr.splitlines() if line.startswith("found at step ")]
    (found,) = [e for e in read_run(tmp_path / "run").found if e.id == "bottleneck"]
    assert isinstance(found, Found)
    (line,) = [line for line in lines if found.summary in line]
    assert line.endswith(found.advice)
    assert "% of the time" in line
