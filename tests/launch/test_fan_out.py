"""Programs on several machines; here each is a process of this one."""

import subprocess
import sys
from contextlib import ExitStack

import pytest

from unisono.launch import fan_out
from unisono.launch.fan_out import FanOut, OutputLine, ProgramEnded

pytestmark = pytest.mark.ranks

WAITS = "import sys; sys.stdin.readline(); print('still here', flush=True)"


@pytest.fixture
def program():
    with ExitStack() as held:

        def start(code):
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            process = subprocess.Popen([sys.executable, "-c", code], text=True, **pipes)
            return held.enter_context(process)

        yield start


def test_those_that_may_lose_a_machine_go_on_and_the_last_one_tells(program, monkeypatch):
    monkeypatch.setattr(fan_out, "GRACE_SECONDS", 0.0)
    jobs = {0: program("raise SystemExit(76)"), 1: program(WAITS)}
    running = FanOut(jobs, may_lose=True)
    heard = []
    for event in running.events():
        heard.append(event)
        if event == ProgramEnded(0, 76):
            jobs[1].stdin.write("\n")
            jobs[1].stdin.flush()
    assert OutputLine(1, "still here") in heard
    assert running.exit_code == 0
    assert running.exit_codes == {0: 76, 1: 0}


def test_the_others_are_stopped_when_one_fails(program, monkeypatch):
    monkeypatch.setattr(fan_out, "GRACE_SECONDS", 0.0)
    running = FanOut({0: program("raise SystemExit(76)"), 1: program(WAITS)})
    list(running.events())
    assert running.exit_code == 76
    assert running.exit_codes[1] > 128


@pytest.mark.parametrize("code", [2, 3])
def test_one_that_knows_the_cause_tells_even_if_it_is_not_the_first(program, code):
    knows = program(f"import sys; sys.stdin.readline(); raise SystemExit({code})")
    running = FanOut({0: program("raise SystemExit(4)"), 1: knows})
    for event in running.events():
        if event == ProgramEnded(0, 4):
            knows.stdin.write("\n")
            knows.stdin.flush()
    assert running.exit_code == code
