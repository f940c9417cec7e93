"""Limits of sections."""

import threading
import time

from unisono.heartbeat import section_limits as sections
from unisono.heartbeat.section_limits import NO_LIMIT, Sections

LIMITS = {"start": 0.4, "data": 0.2, "step": 0.3, "evaluation": 5.0, "save": NO_LIMIT}


class Calls:
    def __init__(self):
        self.late, self.ticks, self.event = [], [], threading.Event()

    def too_late(self, section, limit):
        self.late.append((section, limit))
        self.event.set()

    def tick(self, step, section):
        self.ticks.append((step, section))


def time_sections(monkeypatch, limits=LIMITS):
    monkeypatch.setattr(sections, "TICK_SECONDS", 0.02)
    calls = Calls()
    return calls, Sections(limits, calls.too_late, calls.tick)


def take_steps(timed, count, seconds=0.0):
    for _ in range(count):
        with timed.section("step"):
            time.sleep(seconds)


def test_a_section_that_takes_too_long_is_named_once(monkeypatch):
    calls, timed = time_sections(monkeypatch, {**LIMITS, "start": 30.0})
    take_steps(timed, 5)
    with timed.section("data"):
        assert calls.event.wait(10)
    assert calls.late == [("data", 0.2)]


def test_a_start_that_takes_too_long_is_named(monkeypatch):
    calls, _ = time_sections(monkeypatch)
    assert calls.event.wait(10)
    assert calls.late == [("start", 0.4)]


def test_the_first_updates_have_the_time_of_the_start():
    calls = Calls()
    timed = Sections(LIMITS, calls.too_late, calls.tick)
    assert (timed.limit_of("step"), timed.limit_of("data")) == (0.4, 0.4)
    take_steps(timed, 5)
    assert (timed.limit_of("step"), timed.limit_of("data")) == (0.3, 0.2)
    assert (timed.limit_of("evaluation"), timed.limit_of("save")) == (5.0, NO_LIMIT)
    timed.close()


def test_slow_steps_that_are_usual_raise_their_limit():
    calls = Calls()
    timed = Sections(LIMITS, calls.too_late, calls.tick)
    take_steps(timed, 5, seconds=0.03)
    assert timed.limit_of("step") >= 20 * 0.03
    timed.close()


def test_sections_within_their_limits_are_only_told_of(monkeypatch):
    calls, timed = time_sections(monkeypatch, {**LIMITS, "start": NO_LIMIT})
    timed.step = 7
    with timed.section("evaluation"):
        while (7, "evaluation") not in calls.ticks:
            time.sleep(0.01)
    timed.close()
    assert (7, "evaluation") in calls.ticks
    assert not calls.late
