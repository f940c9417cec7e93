import time

import pytest

from unisono.comm import device_stopwatch
from unisono.comm.device_stopwatch import DeviceStopwatch, reconciled


class Clocks:
    """The host's clock and the device's; events are recorded by the device's."""

    def __init__(self):
        self.host = self.device = 100.0

    def go(self, host=0.0, device=0.0):
        self.host, self.device = self.host + host, self.device + device


class TimedEvent:
    def __init__(self, at):
        self.at = at

    def elapsed_time(self, later):
        return 1000 * (later.at - self.at)


@pytest.fixture
def clocks(monkeypatch):
    clocks = Clocks()
    monkeypatch.setattr(time, "perf_counter", lambda: clocks.host)
    monkeypatch.setattr(device_stopwatch, "event_now", lambda: TimedEvent(clocks.device))
    return clocks


def test_parts_are_as_long_as_on_the_device_and_close_on_the_clock(clocks):
    stopwatch = DeviceStopwatch()
    with stopwatch.time("data"):
        clocks.go(host=1)
    with stopwatch.time("forward"):
        clocks.go(host=0.25, device=2)
        with stopwatch.time("copy"):
            clocks.go(host=0.25, device=1)
    with stopwatch.time("backward"):
        clocks.go(host=0.5, device=6)
    with stopwatch.time("agree"):
        clocks.go(host=10)  # the device takes 9 of these, and others the rest
        stopwatch.synchronized()
    seconds, parts = stopwatch.lap()
    assert parts == {"data": 1, "forward": 2, "copy": 1, "backward": 6, "agree": 2}
    assert seconds == sum(parts.values()) == 12


def test_what_follows_the_message_counts_in_the_next_lap(clocks):
    stopwatch = DeviceStopwatch()
    with stopwatch.time("agree"):
        clocks.go(host=1)
        stopwatch.synchronized()
    with stopwatch.time("optimizer"):
        clocks.go(host=1, device=3)
    assert stopwatch.lap() == (2, {"agree": 2, "optimizer": 0})
    with stopwatch.time("agree"):
        clocks.go(host=4)
        stopwatch.synchronized()
    assert stopwatch.lap() == (4, {"agree": 1, "optimizer": 3})


def test_a_device_that_computed_while_the_host_did_something_else_is_cut_to_the_clock():
    parts = reconciled({"forward": 1.0, "agree": 2.0, "data": 5.0}, {"forward": 6.0})
    assert parts == {"forward": 3.0, "agree": 0.0, "data": 5.0}


def test_hidden_exchange_is_kept_as_it_is():
    assert reconciled({"agree": 1.0}, {"hidden": 0.5})["hidden"] == 0.5
