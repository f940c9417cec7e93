"""Real sidecars of real processes on loopback; the processes do nothing but live."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import msgspec
import psutil
import pytest

from unisono.heartbeat.client import send_heartbeat
from unisono.heartbeat.messages import GroupMember, Heartbeat, SidecarConfig, to_line

pytestmark = pytest.mark.ranks

LIMIT = 4.0
TOKEN = "5e" * 32
WORKER = """
import os, sys
from unisono.heartbeat.messages import SidecarConfig, from_line
from unisono.heartbeat.worker import SidecarHandle

def end(message):
    os._exit(76)

sidecar = SidecarHandle(from_line(sys.stdin.readline().encode(), SidecarConfig), end)
print("up", flush=True)
for line in sys.stdin:
    sidecar.leave(line.strip())
    break
"""


def address_for(rank):
    """Return where a rank calls that of rank 0: to tell the calls apart, each has its own."""
    return f"127.0.0.{rank + 1}"


def ends_of_closed_connections():
    """Return the addresses and ports of connections that both sides have closed just now."""
    found = psutil.net_connections("tcp4")
    closed = [one for one in found if one.status == psutil.CONN_TIME_WAIT]
    return {end for one in closed for end in (one.laddr, one.raddr)}


class Run:
    """Some processes with their sidecars; each has a machine of its own, by name."""

    def __init__(self, size, run=""):
        self.listening = socket.create_server(("0.0.0.0", 0))
        self.workers = [self._start() for _ in range(size)]
        members = tuple(
            GroupMember(rank, f"host{rank}", worker.pid)
            for rank, worker in enumerate(self.workers)
        )
        self.configs = [
            SidecarConfig(
                rank=rank,
                members=members,
                address=address_for(rank),
                port=self.listening.getsockname()[1],
                token=TOKEN,
                limit=LIMIT,
                listen=self.listening.fileno() if rank == 0 else -1,
                then="that is all",
            )
            for rank in range(size)
        ]
        for worker, config in zip(self.workers, self.configs, strict=True):
            worker.stdin.write(to_line(config).decode())
            worker.stdin.flush()
        for worker in self.workers:
            assert worker.stdout.readline() == "up\n"

    def _start(self):
        return subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=(self.listening.fileno(),),
        )

    def sidecar(self, rank):
        [child] = psutil.Process(self.workers[rank].pid).children()
        return child

    def heard(self):
        """Wait until all sidecars have called, and were answered."""
        calls = {(address_for(config.rank), config.port) for config in self.configs[1:]}
        deadline = time.monotonic() + 600
        while not calls <= ends_of_closed_connections():
            assert time.monotonic() < deadline, "not all sidecars have called"
            time.sleep(0.05)

    def leave(self, rank, trouble=""):
        self.workers[rank].stdin.write(f"{trouble}\n")
        self.workers[rank].stdin.flush()

    def said(self, rank):
        """Return all that a process and its sidecar said, until both have ended."""
        return self.workers[rank].stderr.read()

    def close(self):
        for worker in self.workers:
            worker.kill()
            worker.wait()
            for stream in (worker.stdin, worker.stdout, worker.stderr):
                stream.close()
        self.listening.close()


@contextmanager
def started(size):
    run = Run(size)
    try:
        run.heard()
        yield run
    finally:
        run.close()


def line_of(run, rank, how):
    return f"lost: rank {rank} on host{rank} (pid {run.workers[rank].pid}): {how}; that is all"


def seconds_in(said, how):
    """Return the whole seconds that stand in `how` in the place of a #."""
    found = re.search(re.escape(how).replace(r"\#", r"(\d+)"), said)
    assert found, said
    return int(found[1])


def test_a_killed_process_is_named_by_all_sidecars_and_all_end():
    with started(3) as run:
        run.workers[1].kill()
        for rank in range(3):
            wanted = line_of(run, 1, "process died (killed by SIGKILL)")
            assert run.said(rank).splitlines() == [wanted]
        assert [worker.wait() for worker in run.workers] == [76, -9, 76]


def test_the_death_of_rank_0_is_told_by_its_own_sidecar():
    with started(2) as run:
        os.kill(run.workers[0].pid, signal.SIGSEGV)
        assert line_of(run, 0, "process died (killed by SIGSEGV)") in run.said(1)
        assert run.workers[1].wait() == 76


def test_a_stopped_process_is_named_and_then_killed():
    with started(2) as run:
        run.workers[1].send_signal(signal.SIGSTOP)
        assert 2 <= seconds_in(run.said(0), "process stopped (for # s)") <= LIMIT
        assert [worker.wait() for worker in run.workers] == [76, -9]


def test_a_machine_that_is_gone_is_named_as_that():
    with started(3) as run:
        sidecar = run.sidecar(2)
        sidecar.suspend()  # it shall not see what comes now
        run.workers[2].kill()
        sidecar.kill()
        for rank in (0, 1):
            assert "rank 2 on host2" in (said := run.said(rank))
            assert 3 <= seconds_in(said, "machine or link gone (silent for # s)") <= LIMIT


def test_a_process_that_stands_still_for_a_moment_is_not_lost():
    with started(2) as run:
        run.workers[1].send_signal(signal.SIGSTOP)
        time.sleep(0.4)
        run.workers[1].send_signal(signal.SIGCONT)
        time.sleep(1.5)
        assert all(worker.poll() is None for worker in run.workers)


def test_processes_that_leave_are_not_missed_and_their_sidecars_end_soon():
    with started(3) as run:
        sidecars = [run.sidecar(rank) for rank in range(3)]
        for rank in range(3):
            run.leave(rank)
        assert [run.said(rank) for rank in range(3)] == ["", "", ""]
        assert [worker.wait() for worker in run.workers] == [0, 0, 0]
        gone, alive = psutil.wait_procs(sidecars)
        assert not alive


def test_one_that_fails_alone_is_named_with_its_own_words():
    with started(2) as run:
        run.leave(1, "there is no space left")
        assert line_of(run, 1, "process died (there is no space left)") in run.said(0)


def test_a_sidecar_that_is_killed_is_replaced_and_nobody_is_lost():
    with started(2) as run:
        for rank in range(2):
            run.sidecar(rank).kill()
        time.sleep(LIMIT)
        assert all(worker.poll() is None for worker in run.workers)
        run.workers[1].kill()
        assert "process died (killed by SIGKILL)" in run.said(0)
        assert run.workers[0].wait() == 76  # it hears the new one


def test_strangers_at_the_port_change_nothing():
    with started(2) as run:
        port = run.configs[0].port
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100_000, b'{"rank":1}\n', b""):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(words)
        guess = msgspec.structs.replace(run.configs[1], token="00" * 32)
        assert send_heartbeat(guess, Heartbeat(rank=1, condition="died")) is None
        said = run.workers[0].stderr.readline()
        assert said == "warning: 4 connections from 127.0.0.1 did not know the run's secret\n"
        assert all(worker.poll() is None for worker in run.workers)


@pytest.mark.parametrize("source", ["127.0.0.9", "127.0.0.1"])
def test_hundreds_of_idle_strangers_end_nothing(source):
    """Of an address of their own, or of that from which a rank calls."""
    with started(2) as run, ExitStack() as idle:
        for _ in range(300):
            address = "127.0.0.1", run.configs[0].port
            stranger = socket.create_connection(address, source_address=(source, 0))
            idle.enter_context(stranger)
        assert f"connections from {source} did not know" in run.workers[0].stderr.readline()
        time.sleep(1.5 * LIMIT)  # longer than a rank may be silent
        assert all(worker.poll() is None for worker in run.workers)
        run.workers[1].kill()  # and a loss is still noticed
        assert line_of(run, 1, "process died (killed by SIGKILL)") in run.said(0)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stopped_process_is_noticed_though_all_sidecars_are_stopped(rank):
    with started(2) as run:
        sidecars = [run.sidecar(one) for one in (0, 1)]
        for one in sidecars:
            one.suspend()
        run.workers[rank].send_signal(signal.SIGSTOP)
        other = run.workers[1 - rank]
        assert other.wait() == 76
        run.workers[rank].kill()
        sidecars[rank].kill()  # nobody else ends what is stopped
        assert f"lost: rank {rank} on host{rank}" in run.said(1 - rank)
