"""Processes as the kernel shows them: real ones."""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

from unisono.heartbeat.sidecar import WorkerProcess, describe_end, process_state

pytestmark = pytest.mark.ranks


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def until(condition):
    deadline = time.monotonic() + 600
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_a_process_is_seen_running_stopped_running_and_gone(sleeper):
    process_seen = WorkerProcess(sleeper.pid)
    assert not process_seen.look().is_gone and not process_seen.look().is_stopped
    sleeper.send_signal(signal.SIGSTOP)
    until(lambda: process_seen.look().is_stopped)
    sleeper.send_signal(signal.SIGCONT)
    until(lambda: not process_seen.look().is_stopped)
    sleeper.kill()
    until(lambda: process_seen.look().is_gone)
    assert process_seen.look().end == "killed by SIGKILL"
    sleeper.wait()
    assert process_seen.look().end == "killed by SIGKILL"  # remembered after it was reaped


def test_the_pidfd_is_readable_at_the_moment_of_death(sleeper):
    process_seen = WorkerProcess(sleeper.pid)
    assert select.select([process_seen.pidfd], [], [], 0.0)[0] == []
    sleeper.terminate()
    assert select.select([process_seen.pidfd], [], [], 10.0)[0] == [process_seen.pidfd]
    assert process_seen.look().end == "killed by SIGTERM"


def test_an_exit_code_is_read_before_anybody_asks_for_it():
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    process_seen = WorkerProcess(process.pid)
    until(lambda: process_seen.look().is_gone)
    assert process_seen.look().end == "ended with exit code 3"
    process.wait()


def test_a_later_process_with_the_same_number_is_not_mistaken_for_it(sleeper):
    process_seen = WorkerProcess(sleeper.pid)
    process_seen._began = "1"  # as if the number had belonged to one that began earlier
    assert process_seen.look().is_gone
    process_seen.kill()  # spares the stranger
    assert not process_state(sleeper.pid).is_gone


def test_ends_are_told_in_words():
    assert describe_end(signal.SIGSEGV) == "killed by SIGSEGV"
    assert describe_end(2 << 8) == "ended with exit code 2"
    assert process_state(2**22 + 1).is_gone
    assert not process_state(os.getpid()).is_gone
