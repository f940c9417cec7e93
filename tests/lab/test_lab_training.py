"""torchrun and gloo across machines: the same updates as on one."""

import signal
import subprocess
import sys

import pytest
from traces import below, gone

from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.lab.build import plan_agent
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan
from unisono.records.view import read_run

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able")]

UNISONO = [sys.executable, "-m", "unisono"]
STEPS = 3


@pytest.fixture(scope="module")
def homes(corpus_home, tmp_path_factory):
    return corpus_home, tmp_path_factory.mktemp("lab")


def config(homes, name, steps=STEPS):
    """Write the settings of a run called `name`; return their file and its directory."""
    corpus, directory = homes
    settings = tiny_settings(
        corpus,
        run=directory / name,
        train={"max_steps": steps},
        validation={"every_steps": 1_000_000},
    )
    path = directory / f"{name}.toml"
    path.write_text(to_toml(settings))
    return path, directory / name


def losses(run):
    return [step.loss for step in read_run(run).steps]


@pytest.fixture(scope="module")
def local(homes):
    """The run of two processes that need no network."""
    path, run = config(homes, "local")
    subprocess.run([*UNISONO, "launch", str(path), "--workers", "2"], check=True)
    return run


def sent_bytes(lab, node):
    return int(lab.run(node, ["cat", "/sys/class/net/eth0/statistics/tx_bytes"]).stdout)


def test_two_nodes_make_the_updates_of_two_local_processes_over_their_link(homes, local):
    path, run = config(homes, "two")
    plan = LabPlan(nodes=2, link="1gbit")
    with Lab(plan) as lab:
        programs = [(node, plan_agent(plan, node, ["train", str(path)])) for node in (0, 1)]
        running = lab.fan_out(programs)
        said = [event.text for event in running.events() if hasattr(event, "text")]
        assert running.exit_code == 0, said
        sent = [sent_bytes(lab, node) for node in (0, 1)]
    assert not any("[W" in text for text in said), said  # torch knows who calls
    view = read_run(run)
    assert [(start.host, start.size) for start in view.starts] == [("node0", 2), ("node1", 2)]
    assert len(losses(run)) == STEPS
    assert losses(run) == losses(local)
    assert min(sent) > STEPS * 4 * view.starts[0].parameters


def test_three_nodes_make_the_same_updates_up_to_rounding(homes, local):
    path, run = config(homes, "three")
    done = subprocess.run(
        [*UNISONO, "lab", "--nodes", "3", "--", "train", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("node") for line in done.stderr.splitlines())
    assert "node0 | ended at step 3" in done.stderr
    assert read_run(run).hosts == ("node0", "node1", "node2")
    assert losses(run) == pytest.approx(losses(local), rel=1e-4)


def test_ctrl_c_saves_on_all_nodes_and_ends_with_the_code_of_that(homes):
    path, run = config(homes, "stopped", steps=1_000_000)
    command = [*UNISONO, "lab", "--", "train", path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if " | saved" in line:
                break
        machines = below(process.pid)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait() == 75, rest
    assert "node0 | ended" in rest
    assert "Traceback" not in rest
    assert gone(machines)
    assert read_run(run).ends[-1].reason == "signal"


def test_what_is_wrong_with_the_settings_is_said_once_before_anything_is_made(homes, tmp_path):
    path, _ = config(homes, "wrong")
    path.write_text(path.read_text().replace("max_steps", "max_stps"))
    for words, code, says in [
        (["train", path], 2, "`max_stps` is not a setting"),
        (["train", tmp_path / "none.toml"], 2, "there is no file"),
        (["train", path, "--no-such-option"], 2, "No such option"),
    ]:
        done = subprocess.run(
            [*UNISONO, "lab", "--", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert done.stderr.count(says) == 1
        assert "node0" not in done.stderr
