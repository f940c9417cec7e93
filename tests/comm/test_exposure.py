"""What others on the network can see of a run."""

import re
import signal
import subprocess
import sys

import psutil
import pytest

from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.lab.build import plan_agent
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan

pytestmark = pytest.mark.ranks

SS = ["ss", "-ltnpH"]


@pytest.fixture(scope="module")
def config(corpus_home, tmp_path_factory):
    """The settings of a run without end."""
    home = tmp_path_factory.mktemp("seen")
    settings = tiny_settings(
        corpus_home,
        run=home / "run",
        train={"max_steps": 1_000_000, "show_every_steps": 1},
        validation={"every_steps": 1_000_000},
    )
    path = home / "run.toml"
    path.write_text(to_toml(settings))
    return path


def await_step(stream):
    said = []
    for line in stream:
        said.append(line)
        if " step " in line:
            return
    raise AssertionError("".join(said))


def listeners(text, pids=()):
    """Return (pid, address) of everything that listens, of these processes or of all."""
    found = set()
    for line in text.splitlines():
        address = line.split()[3].rpartition(":")[0]
        owners = {int(pid) for pid in re.findall(r"pid=(\d+)", line)}
        found |= {(pid, address) for pid in owners if not pids or pid in pids}
    return found


def test_on_one_machine_nothing_listens_beyond_loopback(config):
    command = [sys.executable, "-m", "unisono", "launch", str(config), "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            await_step(process.stderr)
            ours = [p.pid for p in psutil.Process(process.pid).children(recursive=True)]
            seen = subprocess.run(SS, capture_output=True, text=True, check=True).stdout
        finally:
            process.send_signal(signal.SIGINT)
            process.stderr.read()
    found = listeners(seen, ours)
    assert {address for _, address in found} <= {"127.0.0.1", "[::1]"}, seen
    # The agent's store, both workers, and the sidecar of process 0.
    assert len({pid for pid, _ in found}) == 4, seen


@pytest.mark.usefixtures("able")
def test_on_several_machines_things_listen_on_the_chosen_address_only(config):
    plan = LabPlan(nodes=2)
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with Lab(plan) as lab:
        jobs = []
        for node in (0, 1):
            agent = plan_agent(plan, node, ["train", str(config)])
            jobs.append(lab.start(node, agent.argv, variables=agent.variables, **pipes))
        await_step(jobs[0].stderr)
        for node in (0, 1):
            seen = lab.run(node, SS).stdout
            assert {address for _, address in listeners(seen)} == {lab.address(node)}, seen
