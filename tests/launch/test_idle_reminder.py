"""What machines cost that stand idle after the end of a run: said once, or again and again."""

import time

import pytest

from diagnose.made_runs import BEGAN, ended, start, step
from live_page.made_files import add_events
from unisono.cli.launching.streaming import remind_of_idle

PRICES = '[cost]\nper_machine_hour = 30.0\ncurrency = "EUR"\n'
LAST = BEGAN + 10


@pytest.fixture
def run(tmp_path):
    """Two machines whose run has ended."""
    (tmp_path / "config.toml").write_text(PRICES)
    for rank, host in enumerate(("alpha", "beta")):
        events = [start(rank, 2, host), *(step(n) for n in range(1, 11))]
        add_events(tmp_path, [*events, *([] if rank else [ended(10, time=LAST)])], rank)
    return tmp_path


class Clock:
    """A clock on which only sleeping takes time; after `most` sleeps there is a Ctrl-C."""

    def __init__(self, monkeypatch, now, most):
        self.now, self.most, self.slept = now, most, []
        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        if len(self.slept) == self.most:
            raise KeyboardInterrupt


def test_without_minutes_it_is_said_once(run, monkeypatch, capsys):
    clock = Clock(monkeypatch, LAST + 1, 1)
    remind_of_idle(run)
    assert clock.slept == []
    assert capsys.readouterr().err == ("alpha and beta now stand idle, for 60.00 EUR an hour\n")


def test_with_minutes_it_is_said_again_with_more_money_until_ctrl_c(run, monkeypatch, capsys):
    clock = Clock(monkeypatch, LAST, 3)
    remind_of_idle(run, minutes=20.0)
    assert clock.slept == [1200.0] * 3
    first, *later = capsys.readouterr().err.splitlines()
    assert "now stand idle" in first
    assert later == [
        "alpha and beta have been idle for 20 min 00 s: 20.00 EUR so far",
        "alpha and beta have been idle for 40 min 00 s: 40.00 EUR so far",
    ]


def test_it_ends_when_the_run_goes_on(run, monkeypatch):
    clock = Clock(monkeypatch, LAST + 1, 100)
    going_on = clock.sleep

    def sleep(seconds):
        going_on(seconds)
        if len(clock.slept) == 2:
            again = clock.now - 10
            updates = [step(10 + n, time=again + n) for n in range(1, 10)]
            add_events(run, [start(0, 2, "alpha", step=10, time=again), *updates])

    monkeypatch.setattr(time, "sleep", sleep)
    remind_of_idle(run, minutes=20.0)
    assert len(clock.slept) == 2


def test_without_a_price_nothing_is_said(run, monkeypatch, capsys):
    (run / "config.toml").write_text("")
    Clock(monkeypatch, LAST + 1, 1)
    remind_of_idle(run, minutes=20.0)
    assert capsys.readouterr().err == ""
