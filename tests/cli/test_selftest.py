"""`unisono selftest`, as a user calls it; and what its lines mean."""

import json
import shutil
import signal
import subprocess
import sys

import pytest
import torch

from unisono.cli.launching.selftest_runs import PartOutput, names, take_line
from unisono.cli.selftest import judge_kill, judge_resume
from unisono.comm.protocol import World
from unisono.cost_model.strategies import STRATEGIES
from unisono.errors import DataError
from unisono.exit_codes import RESTARTABLE
from unisono.selftest.in_group import delayed
from unisono.selftest.outcome import SelftestLine, TrainingEnd
from unisono.selftest.trial import CONFIG, KILLED_AT, SAVED_AT, TRIAL_PREFIX, remove_trial

END = TrainingEnd("ab", 4.0, 20)
CONTINUED = TrainingEnd("ab", 4.0, 20, began=8)
PART = [sys.executable, "-m", "unisono", "selftest-part"]


@pytest.mark.ranks
@pytest.mark.long(minutes=2)
def test_two_processes_on_cpus_pass(tmp_path):
    file = tmp_path / "selftest.json"
    command = [sys.executable, "-m", "unisono", "selftest", "--workers=2", f"--json={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(file.read_text())
    assert all(line["passed"] for line in told["lines"]), told
    assert [line["name"] for line in told["lines"]] == [
        "versions and devices",
        "all-reduce",
        "20 updates on the device and on the CPU",
        *(f"strategy {name}" for name in STRATEGIES),
        "the longest micro-batch",
        "speed",
        "a killed process",
        "save, kill, resume",
    ]
    assert "everything works" in done.stdout
    last = told["lines"][-1]
    assert last["text"].endswith("the same bits as without the kill")
    assert last["figures"]["began"] >= SAVED_AT


def part_of(config, run, *words):
    """Do a part of the self-test in one process; return what it printed."""
    command = [*PART, str(config), "--set", f"run={run}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = PartOutput(exit_code=done.returncode)
    for line in (done.stdout + done.stderr).splitlines():
        take_line(line.strip(), output)
    return output


@pytest.mark.ranks
def test_a_killed_training_has_a_checkpoint_and_losing_it_shows(tmp_path):
    config = tmp_path / f"{TRIAL_PREFIX}kept" / CONFIG
    part_of(config, "", "--part=make")
    run = tmp_path / "parts"
    killed = part_of(config, run, "--part=train", f"--kill-at={KILLED_AT}")
    assert killed.exit_code == -signal.SIGKILL
    assert killed.killed == 0
    shutil.copytree(run, tmp_path / "lost")
    shutil.rmtree(tmp_path / "lost" / "checkpoints")
    continued = part_of(config, run, "--part=train")
    restarted = part_of(config, tmp_path / "lost", "--part=train")
    # Both come to the same weights; only one of them continued.
    assert continued.end.weights == restarted.end.weights
    assert continued.end.began >= SAVED_AT
    assert judge_resume(restarted, continued).passed
    line = judge_resume(continued, restarted)
    assert line.passed is False
    assert "began again" in line.text


def test_a_killed_process_has_to_be_named_in_time():
    good = PartOutput(exit_code=RESTARTABLE, killed=1, seconds_to_name=3.0)
    assert judge_kill(good).passed
    late = PartOutput(exit_code=RESTARTABLE, killed=1, seconds_to_name=60.0)
    assert judge_kill(late).passed is False
    assert judge_kill(PartOutput(exit_code=RESTARTABLE, killed=1)).passed is False
    wrong = PartOutput(exit_code=1, killed=1, seconds_to_name=3.0)
    assert "exit code 1" in judge_kill(wrong).text
    assert judge_kill(PartOutput(exit_code=2, error="no corpus")).text == "no corpus"


@pytest.mark.parametrize(
    ("other", "passed"),
    [
        (CONTINUED, True),
        (END, False),  # the same result, but it began again
        (TrainingEnd("cd", 4.01, 20, 8), True),  # on GPUs: up to rounding
        (TrainingEnd("cd", 5.0, 20, 8), False),
        (TrainingEnd("ab", 4.0, 12, 8), False),
        (None, False),
    ],
)
def test_a_continued_run_has_to_equal_the_whole_one(other, passed):
    line = judge_resume(PartOutput(end=END), PartOutput(end=other))
    assert line.passed is passed


def test_the_output_of_parts_is_read_as_data():
    output = PartOutput()
    for line in (
        "node1 | error: no network",
        "node1 |   fix:   plug it in",
        '{"KillNotice":{"rank":1}}',
        '{"TrainingEnd":{"weights":"ab","loss":4.0,"step":20}}',
        '{"SelftestLine":{"name":"x","passed":false,"text":"t","fix":"f"}}',
        '{"SelftestLine":{"name":3}}',
        "{not json",
        '{"Other":1}',
    ):
        take_line(line, output)
    assert (output.error, output.fix, output.killed) == ("no network", "plug it in", 1)
    assert output.end == END
    assert [str(line) for line in output.lines] == ["✗ x: t\n    f"]


def test_who_is_named():
    said = "node0 | lost: rank 1 on vm (pid 7): process died (killed by SIGKILL)"
    assert names(said, 1)
    assert not names(said, 2)
    assert not names("process 1 says hello", 1)


def test_only_its_own_directory_is_removed(tmp_path):
    with pytest.raises(DataError, match="is not a directory of the self-test"):
        remove_trial(tmp_path)
    assert tmp_path.is_dir()


def test_a_test_that_could_not_be_made_is_no_failure():
    assert str(SelftestLine(name="x", passed=None, text="t", fix="f")) == "– x: t"


class OneOfTwo:
    def __init__(self, rank, device="cuda:0"):
        self.world = World(rank, 2, rank, 2, device)


@pytest.mark.parametrize(
    ("comm", "held_up"), [(OneOfTwo(1), 1), (OneOfTwo(0), 0), (OneOfTwo(1, "cpu"), 0)]
)
def test_every_second_gpu_is_held_up_before_it_embeds(comm, held_up, monkeypatch):
    slept, embedding = [], torch.nn.Embedding(4, 2)
    monkeypatch.setattr(torch.cuda, "_sleep", slept.append, raising=False)
    with delayed(comm):
        torch.nn.Linear(2, 2)(embedding(torch.tensor([1])))
    assert len(slept) == held_up
    embedding(torch.tensor([2]))
    assert len(slept) == held_up  # only within the block
