"""What others on the network can see of a run."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.lab.build import plan_agent
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan
from unisono.secure.private_socket import private_directory
from unisono.secure.secret import SECRET

pytestmark = pytest.mark.ranks

SS = ["ss", "-ltnpH"]
PLANT = [sys.executable, str(Path(__file__).parent / "plant_pickle.py")]
OTHER_USER = "65534"


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


def line_with(stream, text):
    said = []
    for line in stream:
        said.append(line)
        if text in line:
            return line
    raise AssertionError("".join(said))


def await_step(stream):
    line_with(stream, " step ")


def listeners(text, pids=()):
    """Return (pid, address) of everything that listens, of these processes or of all."""
    found = set()
    for line in text.splitlines():
        address = line.split()[3].rpartition(":")[0]
        owners = {int(pid) for pid in re.findall(r"pid=(\d+)", line)}
        found |= {(pid, address) for pid in owners if not pids or pid in pids}
    return found


def ports_of(text, pids):
    """Return the ports on which these processes listen."""
    lines = [line for line in text.splitlines() if set(pids) & _owners(line)]
    return [line.split()[3].rpartition(":")[2] for line in lines]


def _owners(line):
    return {int(pid) for pid in re.findall(r"pid=(\d+)", line)}


def has_come_to_pass(file, attack):
    """Wait as long as an attack takes that has planted something; return whether it worked."""
    deadline = time.monotonic() + (30 if re.search(r"planted [1-9]", attack) else 0)
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    return file.exists()


def test_on_one_machine_other_users_reach_nothing_of_ours(config, tmp_path):
    """Another user attacks what the agent and the sidecars offer; gloo's own ports remain."""
    if os.getuid():
        pytest.skip("acting as another user needs root")
    command = [sys.executable, "-m", "unisono", "launch", str(config), "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            await_step(process.stderr)
            ours = psutil.Process(process.pid).children(recursive=True)
            seen = subprocess.run(SS, capture_output=True, text=True, check=True).stdout
            agents = {p.pid for p in ours if "unisono.cli.agent" in p.cmdline()}
            workers = {p.pid for p in ours if "train" in p.cmdline()} - agents
            ports = ports_of(seen, {p.pid for p in ours} - workers)
            attack = subprocess.run(
                [*PLANT, OTHER_USER, str(tmp_path / "owned"), "127.0.0.1", *ports],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            assert not has_come_to_pass(tmp_path / "owned", attack), attack
            entered = subprocess.run(
                ["ls", private_directory()],
                user=int(OTHER_USER),
                capture_output=True,
                text=True,
            )
        finally:
            process.send_signal(signal.SIGINT)
            process.stderr.read()
    found = listeners(seen, [p.pid for p in ours])
    assert {address for _, address in found} <= {"127.0.0.1", "[::1]"}, seen
    assert {pid for pid, _ in found} <= workers, seen
    assert "Permission denied" in entered.stderr


@pytest.mark.usefixtures("able")
def test_on_several_machines_a_third_one_gets_nowhere(config, tmp_path):
    """Everything listens on the chosen address only, and refuses who has no secret."""
    plan = LabPlan(nodes=3)
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with Lab(plan) as lab:
        jobs = []
        for node in (0, 1):
            agent = plan_agent(LabPlan(nodes=2), node, ["train", str(config)])
            jobs.append(lab.start(node, agent.argv, variables=agent.variables, **pipes))
        await_step(jobs[0].stderr)
        for node in (0, 1):
            seen = lab.run(node, SS).stdout
            assert {address for _, address in listeners(seen)} == {lab.address(node)}, seen
        rendezvous = [lab.address(0), "29500"]
        without = {SECRET: "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        plant = [*PLANT, "0", str(tmp_path / "owned"), *rendezvous]
        attack = lab.run(2, plant, variables=without)
        assert not has_come_to_pass(tmp_path / "owned", attack.stdout), attack.stdout
        assert "planted" not in attack.stdout, attack.stderr
        said = line_with(jobs[0].stderr, "did not know")
        assert f"from {lab.address(2)} did not know the run's secret" in said
        await_step(jobs[0].stderr)  # and training goes on
