"""Processes as the kernel shows them: real ones."""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

from unisono.heartbeat.process import WorkerProcess, describe_end, look_at

pytestmark = pytest.mark.ranks


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def until(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_a_process_is_seen_running_stopped_running_and_gone(sleeper):
    watched = WorkerProcess(sleeper.pid)
    assert not watched.look().is_gone and not watched.look().is_stopped
    sleeper.send_signal(signal.SIGSTOP)
    until(lambda: watched.look().is_stopped)
    sleeper.send_signal(signal.SIGCONT)
    until(lambda: not watched.look().is_stopped)
    sleeper.kill()
    until(lambda: watched.look().is_gone)
    assert watched.look().end == "killed by SIGKILL"
    sleeper.wait()
    assert watched.look().end == "killed by SIGKILL"  # remembered after it was reaped


def test_the_bell_rings_at_the_moment_of_death(sleeper):
    watched = WorkerProcess(sleeper.pid)
    assert select.select([watched.bell], [], [], 0.0)[0] == []
    sleeper.terminate()
    assert select.select([watched.bell], [], [], 10.0)[0] == [watched.bell]
    assert watched.look().end == "killed by SIGTERM"


def test_an_exit_code_is_read_before_anybody_asks_for_it():
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    watched = WorkerProcess(process.pid)
    until(lambda: watched.look().is_gone)
    assert watched.look().end == "ended with exit code 3"
    process.wait()


def test_a_later_process_with_the_same_number_is_not_mistaken_for_it(sleeper):
    watched = WorkerProcess(sleeper.pid)
    watched._began = "1"  # as if the number had belonged to one that began earlier
    assert watched.look().is_gone
    watched.kill()  # spares the stranger
    assert not look_at(sleeper.pid).is_gone


def test_ends_are_told_in_words():
    assert describe_end(signal.SIGSEGV) == "killed by SIGSEGV"
    assert describe_end(2 << 8) == "ended with exit code 2"
    assert look_at(2**22 + 1).is_gone
    assert not look_at(os.getpid()).is_gone
