"""Whether the process that leads a run is still there."""

import fcntl
import os
import subprocess
import sys
import threading
import time

import msgspec
import pytest

from diagnose.made_runs import start, step
from unisono.diagnose.answers.duration import answer_duration
from unisono.diagnose.case import open_case
from unisono.records.events import to_line
from unisono.records.follow import Follower
from unisono.records.layout import RunDirectory
from unisono.records.status import Status, leader_lives, write_status
from unisono.records.view import read_run
from unisono.train.run_lock import RunLock

HOLD = """
import fcntl, os, sys, time
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(300)
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "events").mkdir()
    (tmp_path / "config.toml").write_text("[train]\nmax_steps = 200\n")
    return RunDirectory(tmp_path)


@pytest.fixture
def holder(run):
    """A process that holds the lock of the run."""
    command = [sys.executable, "-c", HOLD, str(run.lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def begun(run, pid, host=None, now=None):
    """Write down that a process led the run and made some updates just now."""
    now = time.time() if now is None else now
    told = start(time=now, host=host or os.uname().nodename)
    told = msgspec.structs.replace(told, pid=pid)
    lines = [told, *(step(n, time=now) for n in range(1, 10))]
    run.events(0).write_bytes(b"".join(to_line(event) + b"\n" for event in lines))
    return told


def state_of(run, later=0.0):
    view = read_run(run.path)
    followed = Follower(run.path).look()
    assert (followed.gone, followed.alive) == (view.gone, view.alive)
    return open_case(view, time.time() + later).state


@pytest.mark.ranks
def test_a_run_that_was_killed_has_failed_at_once(run, holder):
    begun(run, holder.pid)
    assert state_of(run) == "running"
    holder.kill()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    assert state_of(run) == "failed", "its parent has not even asked what became of it"
    holder.wait()
    assert state_of(run) == "failed"


@pytest.mark.ranks
def test_a_lock_that_is_held_counts_more_than_a_number_nobody_knows(run, holder):
    told = begun(run, holder.pid)
    gone = msgspec.structs.replace(told, pid=nobody())
    assert leader_lives(run, [gone])
    holder.kill()
    holder.wait()
    assert leader_lives(run, [gone]) is False


@pytest.mark.ranks
def test_a_leader_that_lives_is_running_however_long_it_says_nothing(run, holder):
    begun(run, holder.pid)
    assert state_of(run, later=3600) == "running"
    case = open_case(read_run(run.path), time.time() + 3600)
    assert "has recorded nothing for 1 h" in answer_duration(case).summary
    begun(run, nobody(), host="elsewhere")
    assert state_of(run, later=3600) == "failed"


def test_without_a_lock_the_number_of_the_process_tells_that_it_lives(run):
    begun(run, os.getpid())
    assert state_of(run, later=3600) == "running"


def called_the_same(run, address):
    """Two machines have the name of this one; the leader's has `address`."""
    told = msgspec.structs.replace(begun(run, nobody()), address=address, local_rank=0, size=2)
    other = msgspec.structs.replace(told, rank=1, address="192.0.2.9")
    for rank, event in enumerate((told, other)):
        run.events(rank).write_bytes(to_line(event) + b"\n" + to_line(step(1)) + b"\n")
    run.lock.touch()


def test_of_machines_that_are_called_the_same_the_one_with_the_address_is_this_one(run):
    called_the_same(run, "127.0.0.1")
    assert state_of(run) == "failed"
    hosts = Follower(run.path).look().hosts
    assert hosts == read_run(run.path).hosts
    assert hosts[0].endswith(" (127.0.0.1)")
    called_the_same(run, "192.0.2.8")
    assert state_of(run) == "running"


def test_a_number_that_another_process_has_now_is_not_the_leader(run):
    run.lock.touch()
    long_ago = begun(run, os.getpid(), now=time.time() - 10 * 365 * 86400)
    assert leader_lives(run, [long_ago]) is False


def test_of_another_machine_and_without_a_lock_nothing_is_said(run):
    begun(run, nobody())
    assert state_of(run) == "running"  # no lock: perhaps an older version, or copied
    run.lock.touch()
    assert state_of(run) == "failed"
    begun(run, nobody(), host="elsewhere")
    assert state_of(run) == "running"


def test_a_run_that_says_that_it_failed_has(run):
    begun(run, nobody(), host="elsewhere", now=time.time() - 1)
    write_status(run, Status(state="running"))
    assert state_of(run) == "running"
    write_status(run, Status(state="failed"))
    assert state_of(run) == "failed"
    begun(run, nobody(), host="elsewhere", now=time.time() + 1)
    assert state_of(run) == "running", "it was started again since"


def test_who_looks_at_the_lock_does_not_keep_anybody_from_training(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    directory.lock.touch()
    handle = os.open(directory.lock, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    letting_go = threading.Timer(0.05, os.close, [handle])
    letting_go.start()
    RunLock(directory).release()
    letting_go.join()


def nobody():
    """The number of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid
