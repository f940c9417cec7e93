"""kill -9 of one process of several, or of the one that started them: the same bits."""

import os
import signal
import subprocess
import sys
import time

import pytest

from support.tiny import tiny_settings
from train.test_resume import assert_identical, final_state, link_corpus
from unisono.config.load import to_toml
from unisono.records.view import read_run

STEPS = 60


def command(home, run, last=STEPS):
    settings = tiny_settings(
        home,
        run,
        train={"max_steps": last, "average": 0.9},
        checkpoint={"every_steps": 5},
        validation={"every_steps": 20, "bleu": False},
    )
    config = home / f"{run}.toml"
    config.write_text(to_toml(settings))
    return [sys.executable, "-m", "unisono", "launch", str(config), "--workers", "2"]


def launch(home, run):
    done = subprocess.run(command(home, run), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def kill(home, run, victim, saves):
    """Start the run, kill one of its processes after so many saves, wait for the others."""
    with subprocess.Popen(
        command(home, run), stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        for line in process.stderr:
            saves -= line.startswith("saved")
            if not saves:
                break
        pids = [start.pid for start in read_run(home / run).last_starts]
        os.kill(process.pid if victim == "launcher" else pids[victim], signal.SIGKILL)
        process.stderr.read()
        assert process.wait() != 0
    while any(_is_alive(pid) for pid in pids):
        time.sleep(0.05)


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.ranks
def test_a_launched_run_survives_the_death_of_any_of_its_processes(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    launch(home, "whole")
    for number, victim in enumerate((1, "launcher"), start=1):
        kill(home, "parts", victim, saves=number)
    launch(home, "parts")
    assert_identical(final_state(home / "whole", STEPS), final_state(home / "parts", STEPS))
    starts = [start for start in read_run(home / "parts").starts if start.rank == 0]
    assert [start.step > 0 for start in starts] == [False, True, True]
