import time
from typing import get_args

import pytest

from unisono.diagnose.evidence.ledger import LEDGER_PARTS
from unisono.records.events import StepTaken
from unisono.stopwatch import STEP_PARTS, Stopwatch, Timer, TimerSeconds


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_a_block_within_another_counts_under_its_own_name_only(clock):
    stopwatch = Stopwatch()
    with stopwatch.time("forward"):
        clock(1)
        with stopwatch.time("copy"):
            clock(2)
        with stopwatch.time("copy"):
            clock(4)
        clock(8)
    with stopwatch.time("backward"):
        clock(16)
    assert stopwatch.lap() == (31, {"forward": 9, "copy": 6, "backward": 16})


def test_a_pause_is_in_no_lap_and_what_comes_before_and_after_is(clock):
    stopwatch = Stopwatch()
    clock(1)
    with stopwatch.paused():
        clock(100)
    with stopwatch.time("data"):
        clock(2)
    assert stopwatch.lap() == (3, {"data": 2})
    clock(5)
    assert stopwatch.lap() == (5, {})


def test_the_clock_goes_on_after_an_error(clock):
    stopwatch = Stopwatch()
    with pytest.raises(ValueError, match="no"), stopwatch.time("data"):
        clock(3)
        raise ValueError("no")
    assert stopwatch.lap() == (3, {"data": 3})


def test_every_timer_is_a_field_of_the_event_that_records_a_step():
    timers = set(get_args(Timer))
    assert timers == set(TimerSeconds.__annotations__)
    assert timers <= set(StepTaken.__struct_fields__)


def test_the_ledger_has_every_part_of_a_step_and_what_is_left_over():
    assert (*STEP_PARTS, "other") == LEDGER_PARTS
    assert set(STEP_PARTS) == set(get_args(Timer)) - {"hidden"}
