"""The supervisor, with real programs in the agent's place."""

import os
import signal
import subprocess
import sys

import pytest

from unisono.cli import agent as cli_agent
from unisono.cli.agent import (
    RestartPolicy,
    Supervisor,
    step_reached,
    take_options,
)


def a_run(path, step):
    (path / "checkpoints").mkdir(parents=True, exist_ok=True)
    (path / "config.toml").write_text("")
    (path / "checkpoints" / "latest").write_text(f"step-{step:07d}\n")
    return path


def test_the_step_of_the_last_checkpoint_is_what_was_reached(tmp_path):
    assert step_reached(tmp_path) == -1
    assert step_reached(a_run(tmp_path, 120)) == 120


def test_patience_ends_without_progress_and_is_renewed_by_it():
    patience = RestartPolicy(2, reached=10)
    patience = patience.after(10, seconds=5)
    assert not patience.is_over
    patience = patience.after(20, seconds=5)
    assert (patience.fruitless, patience.wait_seconds) == (0, 1.0)
    waits = []
    while not patience.is_over:
        waits.append(patience.wait_seconds)
        patience = patience.after(20, seconds=5)
    assert waits == [1.0, 2.0]


def test_where_the_run_cannot_be_seen_an_hour_of_work_is_progress():
    patience = RestartPolicy(1, reached=-1)
    assert not patience.after(-1, seconds=3600).is_over
    assert patience.after(-1, seconds=3).is_over


def test_waits_grow_up_to_a_minute():
    assert RestartPolicy(99, fruitless=30).wait_seconds == 60.0


def test_its_options_come_first_and_the_rest_is_for_torchrun(tmp_path):
    words = ["--supervise=3", f"--run={tmp_path}", "--nnodes=1:2", "--run=x"]
    assert take_options(words) == (3, tmp_path, ["--nnodes=1:2", "--run=x"])
    with pytest.raises(SystemExit, match="give how often to try"):
        take_options(["--supervise=often"])


@pytest.fixture
def agent(monkeypatch, tmp_path):
    """A program in the agent's place: takes its exit codes from a list, and counts."""
    monkeypatch.setattr(cli_agent, "FIRST_WAIT_SECONDS", 0.01)

    def use(*codes):
        script = (
            "import pathlib, sys; p = pathlib.Path(sys.argv[1]); n = len(p.read_text()); "
            f"p.write_text('x' * (n + 1)); sys.exit({list(codes)}[n])"
        )
        monkeypatch.setattr(cli_agent, "AGENT", (sys.executable, "-c", script))
        counter = tmp_path / "starts"
        counter.write_text("")
        return counter

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield use
    for number, handler in before.items():
        signal.signal(number, handler)


def run(counter, tries, run_directory):
    said = []
    code = Supervisor(run_directory, tries, said.append).supervise([str(counter)])
    return code, len(counter.read_text()), said


@pytest.mark.ranks
@pytest.mark.parametrize("code", [0, 2, 3, 75])
def test_success_errors_of_the_user_and_preemption_are_final(agent, tmp_path, code):
    assert run(agent(code), 5, tmp_path)[:2] == (code, 1)


@pytest.mark.ranks
def test_faults_are_tried_again_until_it_is_pointless(agent, tmp_path):
    code, starts, said = run(agent(76, 1, 4, 0), 5, a_run(tmp_path / "run", 5))
    assert (code, starts) == (0, 4)
    code, starts, said = run(agent(76, 76, 76, 0), 3, a_run(tmp_path / "run", 5))
    assert (code, starts) == (76, 3)
    assert "3 times in a row without getting further than step 5" in said[-1]


@pytest.mark.ranks
def test_a_supervisor_that_is_asked_to_stop_passes_it_on_and_starts_nothing_more(tmp_path):
    script = tmp_path / "agent.py"
    script.write_text(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
        "print('up', flush=True)\ntime.sleep(60)\n"
    )
    code = (
        "import sys; from unisono.cli import agent as s; "
        f"s.AGENT = (sys.executable, {str(script)!r}); "
        f"sys.exit(s.supervise(['--supervise=9', '--run={tmp_path}']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=dict(os.environ), text=True
    ) as process:
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.stdout.read() == ""  # not started again
        assert process.wait() == 1
