"""Real torchrun, on one machine and on several: elastic, restarted, with a late clock."""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from join_processes import JOINER
from test_across_machines import spoil_name

from support.ranks import free_port
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan

pytestmark = pytest.mark.ranks

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
AGENT = [sys.executable, "-m", "unisono.cli.agent"]
LATE = [sys.executable, str(Path(__file__).parent / "late_clock.py"), "20"]
LIMIT_SECONDS = 600
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@pytest.fixture(scope="module")
def lab(able):
    with Lab(LabPlan(nodes=3)) as lab:
        spoil_name(lab)
        yield lab


def rendezvous(node, nodes, *further):
    return [
        f"--nnodes={nodes}",
        *("--rdzv-backend=c10d", "--rdzv-endpoint=node0:29500", "--rdzv-id=test"),
        f"--rdzv-conf=is_host={int(node == 0)},last_call_timeout=60",
        *further,
        JOINER[-1],
    ]


def told(text):
    """Return what joiners printed; two may have written into one line."""
    return [json.loads(found) for found in re.findall(r"{.*?}", text)]


def ends_of(jobs):
    try:
        said = [job.communicate() for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    return [(job.returncode, out, err) for job, (out, err) in zip(jobs, said, strict=True)]


@pytest.mark.parametrize("kind", ["standalone", "static"])
def test_every_restart_comes_up(kind):
    """The store of the agent outlives the workers; what the dead wrote must not mislead."""
    deaths = 2
    option = "--standalone" if kind == "standalone" else f"--master-port={free_port()}"
    done = subprocess.run(
        [*TORCHRUN, option, "--nproc-per-node=2", f"--max-restarts={deaths}", JOINER[-1]],
        env={**os.environ, "DEATHS": str(deaths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = told(done.stdout)
    assert len(found) == 2 * (deaths + 1)
    assert {(end["size"], end["interface"]) for end in found} == {(2, "lo")}


def test_an_elastic_run_takes_all_machines_that_are_there(lab):
    """With the host name of the first machine meaning loopback to itself."""
    jobs = [
        lab.start(node, [*TORCHRUN, *rendezvous(node, "1:3")], **PIPES) for node in range(3)
    ]
    ends = ends_of(jobs)
    assert [code for code, _, _ in ends] == [0, 0, 0], "\n".join(err for _, _, err in ends)
    found = [end for _, out, _ in ends for end in told(out)]
    assert [(end["host"], end["size"], end["interface"]) for end in found] == [
        (f"node{node}", 3, "eth0") for node in range(3)
    ]


def test_torchrun_that_goes_on_with_fewer_machines_than_asked_is_stopped(lab):
    """Seen with the clock of the second machine 20 s behind: world of one, exit code 0."""
    first = lab.start(0, [*TORCHRUN, *rendezvous(0, 2)], **PIPES)
    second = lab.start(1, [*LATE, "torch.distributed.run", *rendezvous(1, 2)], **PIPES)
    try:
        out, said = first.communicate()
    finally:
        second.kill()
    assert first.returncode != 0
    assert not told(out)
    assert "torchrun was asked for 2 machines, but continues with 1" in said


def test_our_agent_names_the_machine_whose_clock_is_behind(lab):
    first = lab.start(0, [*AGENT, *rendezvous(0, 2)], **PIPES)
    second = lab.start(1, [*LATE, "unisono.cli.agent", *rendezvous(1, 2)], **PIPES)
    try:
        _, said = second.communicate()
    finally:
        first.kill()
    assert second.returncode == 4
    words = r"the clock of node1 is ([\d.]+) s behind that of the first machine"
    behind = re.search(words, said)
    assert behind, said
    assert float(behind[1]) == pytest.approx(20, abs=0.5)


def line_with(job, text):
    """Return the first line with `text` that a job says; without one, all it said."""
    said = []
    for line in job.stderr:
        if text in line:
            return line
        said.append(line)
    return "".join(said)


def test_our_agents_say_which_machines_are_missing(lab):
    jobs = [lab.start(node, [*AGENT, *rendezvous(node, 3)], **PIPES) for node in (0, 2)]
    lost = lab.start(1, [*AGENT, *rendezvous(1, 3, "--rdzv-endpoint=node0:29501")], **PIPES)
    everyone = (*jobs, lost)
    limit = threading.Timer(LIMIT_SECONDS, lambda: [job.kill() for job in everyone])
    limit.start()
    try:
        said = [line_with(job, "2 of 3 machines") for job in jobs]
        astray = line_with(lost, "29501")
    finally:
        limit.cancel()
        for job in everyone:
            job.kill()
    for node, line in zip((0, 2), said, strict=True):
        assert line.startswith(f"node{node} waits: 2 of 3 machines are here (node"), line
        assert "1 missing" in line
    assert astray.startswith("node1 waits for the first machine at node0 port 29501"), astray
    assert "nothing listens yet" in astray
