"""Waiting speaks and ends, whatever it waits for."""

import threading

import pytest

from unisono.comm.waiting import WaitAbandoned, Waiting, wait_with_progress
from unisono.errors import DataError, RunError


def test_what_is_waited_for_is_returned_or_raised():
    told = []
    assert wait_with_progress(lambda waiting: 7, "x", 10, told.append) == 7

    def fail(waiting):
        raise DataError("broken")

    with pytest.raises(DataError, match="broken"):
        wait_with_progress(fail, "x", 10, told.append)
    assert told == []


def test_a_timeout_of_the_action_is_its_own_error():
    def fail(waiting):
        raise TimeoutError("of the action")

    with pytest.raises(TimeoutError, match="of the action"):
        wait_with_progress(fail, "x", 10, print)


def test_a_call_that_never_returns_is_left_behind_with_what_it_said_last():
    never = threading.Event()

    def hang(waiting):
        waiting.describe("nobody is here", "look for them")
        never.wait()

    with pytest.raises(RunError) as error:
        wait_with_progress(hang, "x", 0.2, print)
    never.set()
    assert error.value.what == "after 0.20 s, nobody is here"
    assert error.value.fix == "look for them"


def test_the_thread_has_ended_when_the_waiting_has():
    """One that came back from a store while Python ended has aborted the process."""
    ended = []

    def try_on(waiting):
        try:
            while True:
                waiting.pause(0.3)
        finally:
            ended.append(True)

    with pytest.raises(RunError):
        wait_with_progress(try_on, "x", 0.1, print)
    assert ended


def test_nobody_tries_on_after_the_end():
    with pytest.raises(WaitAbandoned):
        Waiting("x", 0).pause(10)
