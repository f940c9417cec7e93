"""kill -9 of what started the workers, at any moment of the start: nobody trains on."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from unisono.config.load import to_toml

FOREVER = 1_000_000


@contextlib.contextmanager
def started(home, *options):
    """Launch a run that would never end, two processes on one machine."""
    settings = tiny_settings(home, "run", train={"max_steps": FOREVER})
    config = home / "run.toml"
    config.write_text(to_toml(settings))
    command = [sys.executable, "-m", "unisono", "launch", str(config), *options]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def below(process, generations):
    """Wait for children, children of the first child …; return those of the last generation."""
    parent, found = psutil.Process(process.pid), []
    for _ in range(generations):
        while not (found := parent.children()):
            assert process.poll() is None, "ended before it started anything"
            time.sleep(0.005)
        parent = found[0]
    return found


def import_of_torch(processes):
    """Wait until a process has mapped torch's library."""
    while not any("libtorch" in mapped.path for mapped in processes[0].memory_maps()):
        time.sleep(0.005)


def living(home):
    """Return the processes that know this test's directory from their command line."""
    mine = str(home / "run")
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        if mine in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


AGENT, WORKERS = 1, 2
MOMENTS = {
    "the agent starts": (AGENT, False),
    "the agent imports torch": (AGENT, True),
    "the workers start": (WORKERS, False),
    "the workers import torch": (WORKERS, True),
}


def assert_all_end(home):
    """Give the others all the time that an import of torch takes on a busy machine."""
    deadline = time.monotonic() + 600
    try:
        while left := living(home):
            assert not (home / "run").exists(), f"orphans train: {left}"
            assert time.monotonic() < deadline, f"orphans: {left}"
            time.sleep(0.05)
    finally:
        for process in living(home):
            process.kill()


@pytest.mark.ranks
@pytest.mark.parametrize("moment", MOMENTS)
def test_workers_end_with_their_launcher(corpus_home, tmp_path, moment):
    home, (generations, imports) = link_corpus(corpus_home, tmp_path), MOMENTS[moment]
    with started(home) as process:
        last = below(process, generations)
        if imports:
            import_of_torch(last)
    assert_all_end(home)


@pytest.mark.ranks
def test_workers_end_with_their_agent(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    with started(home) as process:
        workers = below(process, WORKERS)
        os.kill(workers[0].ppid(), signal.SIGKILL)
        assert process.wait() != 0
    assert_all_end(home)


@pytest.mark.ranks
def test_a_supervised_agent_ends_with_its_launcher(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    with started(home, "--restarts", "3") as process:
        below(process, WORKERS)  # the supervisor, its agent
    assert_all_end(home)
