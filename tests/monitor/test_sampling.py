"""The sampler as a process of its own beside a training, and what becomes of it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import psutil
import pytest

from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.diagnose.case import open_case
from unisono.monitor.worker import SamplerConfig, Sampling
from unisono.records.events import StepTaken
from unisono.records.layout import RunDirectory
from unisono.records.monitor_events import read_machines
from unisono.records.view import read_run
from unisono.train.job import run_training

pytestmark = pytest.mark.ranks

OFTEN = {"on": True, "every": "0.1 s"}


def wait_for(condition):
    while not condition():  # for as long as pytest lets a test take
        time.sleep(0.05)


def has_samples(run):
    return any(log.samples for log in read_machines(RunDirectory(run)).values())


def test_a_training_is_sampled_from_its_start_to_its_end(corpus_home, tmp_path):
    settings = tiny_settings(corpus_home, run=tmp_path / "run", monitor=OFTEN)
    events = []
    for event in run_training(settings):
        if isinstance(event, StepTaken) and event.step == 1:
            wait_for(lambda: has_samples(tmp_path / "run"))  # a sampler may be slow to start
        events.append(event)
    log = read_run(tmp_path / "run").machines[0]
    assert log.machines[0].pids == [os.getpid()]
    assert log.samples[0].time < events[-1].time <= log.samples[-1].time + 0.5
    assert log.samples[-1].own_cpu > log.samples[0].own_cpu
    assert not log.warnings


def test_nothing_is_sampled_if_nobody_wants_it(corpus_home, tmp_path):
    list(run_training(tiny_settings(corpus_home, run=tmp_path / "run")))
    assert not (tmp_path / "run" / "monitor").exists()


@pytest.fixture(scope="module")
def held_up(corpus_home, tmp_path_factory):
    """A run of two processes, of which the second is stopped for most of the time."""
    home = tmp_path_factory.mktemp("held")
    settings = tiny_settings(
        corpus_home,
        run=home / "run",
        # Much to compute and little to exchange: whoever is stopped, is while computing.
        model={"width": 64, "inner": 512},
        batching={"tokens_per_update": 3200, "tokens_per_micro_batch": 400},
        train={"max_steps": 16},
        validation={"every_steps": 1_000_000, "bleu": False},
        checkpoint={"every_steps": 1_000_000},
        monitor=OFTEN,
    )
    (home / "run.toml").write_text(to_toml(settings))
    command = [sys.executable, "-m", "unisono", "launch", str(home / "run.toml")]
    with subprocess.Popen([*command, "--workers", "2"]) as process:
        events = RunDirectory(home / "run").events(1)
        wait_for(lambda: (events.is_file() and b"\n" in events.read_bytes()) or process.poll())
        (pid,) = [start.pid for start in read_run(home / "run").starts if start.rank == 1]
        with suppress(ProcessLookupError):
            while process.poll() is None and steps_while_held(home / "run", pid) < 15:
                time.sleep(0.05)
    assert process.returncode == 0
    return read_run(home / "run")


def steps_while_held(run, pid, seconds=0.15):
    """Stop the second process for a while; return how many steps it has taken."""
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + seconds
    steps = len(read_run(run).ranks.get(1, ()))
    time.sleep(max(0.0, until - time.monotonic()))
    os.kill(pid, signal.SIGCONT)
    return steps


def test_two_workers_of_a_machine_have_one_sampler(held_up):
    assert list(held_up.machines) == [0]
    pids = held_up.machines[0].machines[0].pids
    assert sorted(pids) == sorted(start.pid for start in held_up.starts)


def test_the_process_that_was_held_up_is_the_one_that_was_waited_for(held_up):
    case = open_case(held_up, time.time())
    waited = case.ledger.waited_for
    assert waited[1] > 2 * waited.get(0, 0.0)
    assert case.bottleneck.cause == "straggler"
    assert case.bottleneck.culprit == 1
    for row in case.ledger.rows:
        assert row.waits[row.late_rank] == 0.0
        assert sum(row.parts.values()) == pytest.approx(row.seconds, rel=0.05)


def test_the_parts_of_a_run_close_on_its_clock(held_up):
    ledger = open_case(held_up, time.time()).ledger
    steps = sum(row.seconds for row in ledger.rows)
    # It is 98 to 99 % on a quiet machine; here somebody stops a process anywhere.
    assert 0.9 * steps <= steps - sum(row.parts["other"] for row in ledger.rows)
    assert steps + ledger.evaluation + ledger.checkpoint <= 1.01 * ledger.wall


def started(run, pid):
    """A process that samples for `run`, and its worker, which waits for ever."""
    code = (
        "import sys, time\n"
        "from unisono.monitor.worker import SamplerConfig\n"
        "from unisono.monitor.worker import Sampling\n"
        f"with Sampling(SamplerConfig(run={str(run)!r}, rank=0, pids=({pid},), every=0.1)):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    worker.stdout.readline()
    (sampler,) = psutil.Process(worker.pid).children()
    return worker, sampler


def test_the_sampler_ends_with_its_worker_however_that_ends(tmp_path):
    worker, sampler = started(tmp_path, os.getpid())
    with worker:
        wait_for(lambda: read_machines(RunDirectory(tmp_path)).get(0))
        for number in (signal.SIGINT, signal.SIGTERM):
            sampler.send_signal(number)  # as a terminal or a scheduler does
        count = len(read_machines(RunDirectory(tmp_path))[0].samples)
        wait_for(lambda: len(read_machines(RunDirectory(tmp_path))[0].samples) > count + 2)
        worker.kill()
    sampler.wait()


@contextmanager
def sampled(run):
    """Sample into a run; yields the process that does it."""
    before = set(psutil.Process().children())
    with Sampling(SamplerConfig(run=str(run), rank=0, pids=(), every=0.1)):
        (sampler,) = set(psutil.Process().children()) - before
        yield sampler


def test_a_sampler_that_dies_is_not_missed(tmp_path):
    with sampled(tmp_path) as sampler:
        sampler.kill()
        sampler.wait()


def test_a_run_directory_that_cannot_be_written_is_no_trouble(tmp_path, capfd):
    (tmp_path / "monitor").write_text("in the way")
    with sampled(tmp_path) as sampler:
        sampler.wait()
    assert "Traceback" not in capfd.readouterr().err


def test_a_file_is_full_at_some_time(tmp_path):
    path = RunDirectory(tmp_path).monitor(0)
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(256 * 2**20)
    with sampled(tmp_path) as sampler:
        sampler.wait()
    with path.open("rb") as file:
        file.seek(-200, os.SEEK_END)
        assert b"sampling ends" in file.read()
