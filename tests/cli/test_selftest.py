"""`unisono selftest`, as a user calls it; and what its lines mean."""

import json
import subprocess
import sys

import pytest

from unisono.cli.launching.selftest_runs import PartOutput, names, take_line
from unisono.cli.selftest import judge_kill, judge_resume
from unisono.errors import DataError
from unisono.exit_codes import RESTARTABLE
from unisono.selftest.outcome import SelftestLine, TrainingEnd
from unisono.selftest.trial import remove_trial

END = TrainingEnd("ab", 4.0, 20)


@pytest.mark.ranks
@pytest.mark.long
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
        "strategy ddp",
        "strategy compressed",
        "strategy powersgd",
        "strategy diloco",
        "the longest micro-batch",
        "speed",
        "a killed process",
        "save, kill, resume",
    ]
    assert "everything works" in done.stdout
    assert told["lines"][-1]["text"] == "the same bits as without the kill"


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
        (END, True),
        (TrainingEnd("cd", 4.01, 20), True),  # on GPUs: up to rounding
        (TrainingEnd("cd", 5.0, 20), False),
        (TrainingEnd("ab", 4.0, 12), False),
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
