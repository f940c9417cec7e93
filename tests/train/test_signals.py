"""Signals, sent to real processes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unisono.train.process_setup import Signals

BLOCKED = """
import ctypes
from unisono.train.process_setup import Signals

libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
with Signals():
    print("up", flush=True)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)  # never returns, and no handler of Python's can run
"""


def has_pending(pid):
    """Return whether a signal has been sent to a process but not yet taken by it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    sets = [line.split()[1] for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(int(pending, 16) for pending in sets)


def test_the_first_signal_is_only_noted():
    with Signals() as signals:
        signal.raise_signal(signal.SIGTERM)
        assert signals.stop
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_save_is_asked_for_once():
    with Signals() as signals:
        signal.raise_signal(signal.SIGUSR1)
        assert (signals.take_save(), signals.take_save(), signals.stop) == (True, False, False)


@pytest.mark.ranks
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_a_process_that_waits_in_the_backend(second):
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKED], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "up\n"
            process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 600
            while has_pending(process.pid):  # a second one would count as the same
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(0.3)
            assert process.poll() is None
            process.send_signal(second)
            assert process.wait() == 128 + second
        finally:
            process.kill()
