"""Real faults in a laboratory: every surviving node says who was lost, and how."""

import re
import signal
import time

import pytest

from faults.stage import SOON, Stage, kill, stop, write_config
from unisono.comm.group import Solo
from unisono.config.load import load_settings
from unisono.records.layout import RunDirectory
from unisono.records.status import read_status
from unisono.records.view import read_run
from unisono.train.job import run_with

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able")]

STEPS = 60


def cause_in(line, rank):
    """Return the cause that a line tells after the rank, its host and a process number."""
    found = re.match(rf"lost: rank {rank} on node{rank} \(pid \d+\): ([^;]+);", line)
    assert found, line
    return found[1]


def cause_everywhere(stage, nodes, rank, after=0.0):
    """Return the cause that each node tells, and so do the events of its rank."""
    causes = [cause_in(stage.wait_for("lost:", node, after)[0], rank) for node in nodes]
    for node, cause in zip(nodes, causes, strict=True):
        event = stage.loss(node, after)
        assert (event.rank, event.host, event.seen_by) == (rank, f"node{rank}", node)
        assert f"{event.how} ({event.detail})" == cause
    assert len(set(causes)) == 1, causes
    return causes[0]


def losses_by_step(run):
    return {step.step: step.loss for step in read_run(run).steps}


def kill_in_save(stage):
    """Kill rank 0 while a checkpoint is half written."""
    checkpoints, leader = stage.run / "checkpoints", stage.worker(0)
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        if any(checkpoints.glob(".tmp-*")):
            kill(leader)
            return
    raise AssertionError("no checkpoint was being written")


def test_killed_in_a_step_and_in_a_checkpoint_it_goes_on_with_the_same_updates(
    corpus_home, tmp_path
):
    config = write_config(corpus_home, tmp_path, steps=STEPS)
    with Stage(config, tmp_path / "run", options=["--max-restarts=2"]) as stage:
        stage.wait_for("saved step-0000005")
        kill(stage.worker(1))
        assert cause_everywhere(stage, [0, 1], 1) == "process died (killed by SIGKILL)"
        line, again = stage.wait_for("continuing from checkpoint")
        stage.wait_for("saved", after=again)
        moment = time.time()
        kill_in_save(stage)
        assert cause_everywhere(stage, [0, 1], 0, moment) == "process died (killed by SIGKILL)"
        stage.wait_for(f"ended at step {STEPS}")
        codes = [job.wait() for job in stage.jobs.values()]
        assert codes == [0, 0], stage.everything()
    undisturbed = load_settings(config, (f"run={tmp_path / 'alone'}",))
    for _ in run_with(Solo(), undisturbed):
        pass
    alone, disturbed = losses_by_step(tmp_path / "alone"), losses_by_step(tmp_path / "run")
    assert disturbed == pytest.approx(alone, rel=1e-4)
    assert len(disturbed) == STEPS
    assert len(read_run(tmp_path / "run").losses) == 2
    assert read_status(RunDirectory(tmp_path / "run")).state == "done"


@pytest.mark.long(minutes=1)
def test_a_link_may_be_down_for_five_seconds_but_a_stopped_process_is_named(
    corpus_home, tmp_path
):
    config = write_config(corpus_home, tmp_path, sync={"lost_after": "20 s"})
    # An agent waits longer for its store than the link is down: by itself, for a minute.
    with Stage(config, tmp_path / "run", nodes=3, conf=SOON) as stage:
        stage.wait_for("saved")
        stage.lab.link_down(2)
        time.sleep(5)
        before = stage.steps()
        stage.lab.link_up(2)
        deadline = time.monotonic() + 600
        while stage.steps() < before + 20 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert stage.steps() >= before + 20, stage.everything()
        assert "lost:" not in stage.everything()
        assert stage.text(0).count("training") == 1  # and never started again
        number = stage.pid_inside(1)
        stop(stage.worker(1))
        cause = cause_everywhere(stage, [0, 1, 2], 1)
        stopped = re.fullmatch(r"process stopped \(for (\d+) s\)", cause)
        assert stopped, cause
        assert 0.4 * 20 <= int(stopped[1]) <= 20
        assert f"(pid {number})" in stage.text(2)
        codes = [job.wait() for job in stage.jobs.values()]
        assert codes == [76, 76, 76], stage.everything()
        said = [stage.text(node).count("lost:") for node in range(3)]
        assert said == [1, 1, 1], stage.everything()
    status = read_status(RunDirectory(tmp_path / "run"))
    assert (status.state, status.exit_code) == ("lost", 76)
    assert "rank 1 on node1" in status.message
    assert "Thread" in (tmp_path / "run" / "stacks" / "rank-0000.txt").read_text()


@pytest.mark.long(minutes=1)
def test_an_agent_killed_and_a_link_cut_for_good_the_rest_goes_on_and_takes_it_back(
    corpus_home, tmp_path
):
    config = write_config(corpus_home, tmp_path)
    options = ["--nnodes=1:2", "--max-restarts=9"]
    with Stage(config, tmp_path / "run", options=options, tries=9) as stage:
        stage.wait_for("on 2 processes")
        stage.wait_for("saved")
        moment = time.time()
        kill(stage.agent(0))
        cause = cause_everywhere(stage, [0, 1], 0)
        assert cause == "process died (together with its agent)"
        _, two = stage.wait_for("on 2 processes", after=moment)
        stage.wait_for("saved", after=two)
        moment = time.time()
        stage.lab.link_down(1)
        for node, other in ((0, 1), (1, 0)):
            line, _ = stage.wait_for("lost:", node, after=moment)
            assert cause_in(line, other).startswith("machine or link gone")
            assert stage.loss(node, moment).how == "machine or link gone"
        stage.wait_for("on 1 process ", after=moment)
        moment = time.time()
        stage.lab.link_up(1)
        _, two = stage.wait_for("on 2 processes", after=moment)
        stage.wait_for("saved", after=two)
        for job in stage.jobs.values():
            job.send_signal(signal.SIGTERM)
        codes = [job.wait() for job in stage.jobs.values()]
        assert codes == [75, 75], stage.everything()
    assert read_status(RunDirectory(tmp_path / "run")).state == "preempted"
