"""Limits of sections."""

import threading
import time

from unisono.heartbeat import section_limits as sections
from unisono.heartbeat.section_limits import NEVER, Sections

LIMITS = {"start": 0.4, "data": 0.2, "step": 0.3, "evaluation": 5.0, "save": NEVER}


class Told:
    def __init__(self):
        self.late, self.ticks, self.event = [], [], threading.Event()

    def too_late(self, section, limit):
        self.late.append((section, limit))
        self.event.set()

    def tick(self, step, section):
        self.ticks.append((step, section))


def watch(monkeypatch, limits=LIMITS):
    monkeypatch.setattr(sections, "TICK_SECONDS", 0.02)
    told = Told()
    return told, Sections(limits, told.too_late, told.tick)


def take_steps(watched, count, seconds=0.0):
    for _ in range(count):
        with watched.section("step"):
            time.sleep(seconds)


def test_a_section_that_takes_too_long_is_named_once(monkeypatch):
    told, watched = watch(monkeypatch, {**LIMITS, "start": 30.0})
    take_steps(watched, 5)
    with watched.section("data"):
        assert told.event.wait(10)
    assert told.late == [("data", 0.2)]


def test_a_start_that_takes_too_long_is_named(monkeypatch):
    told, _ = watch(monkeypatch)
    assert told.event.wait(10)
    assert told.late == [("start", 0.4)]


def test_the_first_updates_have_the_time_of_the_start():
    told = Told()
    watched = Sections(LIMITS, told.too_late, told.tick)
    assert (watched.limit_of("step"), watched.limit_of("data")) == (0.4, 0.4)
    take_steps(watched, 5)
    assert (watched.limit_of("step"), watched.limit_of("data")) == (0.3, 0.2)
    assert (watched.limit_of("evaluation"), watched.limit_of("save")) == (5.0, NEVER)
    watched.close()


def test_slow_steps_that_are_usual_raise_their_limit():
    told = Told()
    watched = Sections(LIMITS, told.too_late, told.tick)
    take_steps(watched, 5, seconds=0.03)
    assert watched.limit_of("step") >= 20 * 0.03
    watched.close()


def test_sections_within_their_limits_are_only_told_of(monkeypatch):
    told, watched = watch(monkeypatch, {**LIMITS, "start": NEVER})
    watched.step = 7
    with watched.section("evaluation"):
        time.sleep(0.2)
    watched.close()
    assert (7, "evaluation") in told.ticks
    assert not told.late
