"""Faults of processes on this machine: signals to one rank, and a process that hangs."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest

from faults.stage import write_config
from unisono.records.layout import RunDirectory
from unisono.records.status import read_status
from unisono.records.view import read_run

pytestmark = pytest.mark.ranks

# A worker whose data hang after a while: a real process, and a real lock that never opens.
HANGS = """
import threading
from unisono.train import loop

count, original = [0], loop._next_update

def next_work(works, session):
    count[0] += 1
    if count[0] == 12 and session.parts.comm.world.rank == 1:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    return original(works, session)

loop._next_update = next_work
from unisono.cli import main
main()
"""


@contextmanager
def launched(config, run, program=("-m", "unisono")):
    """Two workers under torchrun, from their first checkpoint on."""
    command = [
        sys.executable,
        "-m",
        "unisono.cli.agent",
        "--standalone",
        "--nproc-per-node=2",
    ]
    with subprocess.Popen(
        [*command, *program, "train", str(config)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    ) as process:
        for line in process.stderr:
            if "saved" in line:
                break
        yield process
        process.kill()


def workers(process):
    found = [c for c in psutil.Process(process.pid).children() if "train" in c.cmdline()]
    return sorted(found, key=lambda child: child.pid)


def test_a_signal_to_one_rank_lets_all_save_and_end_as_preempted(corpus_home, tmp_path):
    config = write_config(corpus_home, tmp_path)
    with launched(config, tmp_path / "run") as process:
        workers(process)[1].send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait() == 75, rest
    assert "lost:" not in rest
    status = read_status(RunDirectory(tmp_path / "run"))
    assert (status.state, status.exit_code) == ("preempted", 75)
    saved = read_run(tmp_path / "run").saves[-1]
    assert saved.step == status.step
    assert not psutil.pid_exists(process.pid)


def test_a_process_that_hangs_in_its_data_is_named_with_its_section(corpus_home, tmp_path):
    config = write_config(corpus_home, tmp_path, limits={"data": "2 s", "step": "30 s"})
    script = tmp_path / "worker.py"
    script.write_text(HANGS)
    with launched(config, tmp_path / "run", (str(script),)) as process:
        rest = process.stderr.read()
        assert process.wait() == 76, rest
    words = r"section `data` took longer than 2\.00 s"
    assert re.search(rf"lost: rank 1 on \S+ \(pid \d+\): too slow \({words}\)", rest), rest
    assert re.search(rf"lost: rank 1 on \S+ \(pid \d+\): process died \({words}\)", rest), rest
    assert "next_work" in (tmp_path / "run" / "stacks" / "rank-0001.txt").read_text()
    losses = read_run(tmp_path / "run").losses
    assert [(loss.rank, loss.how) for loss in losses] == [(1, "too slow")]
