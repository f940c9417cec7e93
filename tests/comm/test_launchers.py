"""Training under launchers that are not ours: mpirun of two makers, and Slurm."""

import os
import shutil
import subprocess
import sys

import pytest

from support.slurm import Slurm, missing
from support.tiny import tiny_settings, write_text
from unisono.config.load import to_toml
from unisono.lab.build import plan_agent
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan
from unisono.launch.fan_out import OutputLine
from unisono.prepare.build import prepare_corpus
from unisono.records.view import read_run

pytestmark = pytest.mark.ranks

UNISONO = [sys.executable, "-m", "unisono"]


def write_config(corpus_home, directory, name="run", steps=2):
    settings = tiny_settings(
        corpus_home,
        run=directory / name,
        train={"max_steps": steps},
        validation={"every_steps": 1_000_000, "bleu": False},
    )
    path = directory / f"{name}.toml"
    path.write_text(to_toml(settings))
    return path


def train(launcher, config, variables=os.environ):
    done = subprocess.run(
        [*launcher, *UNISONO, "train", str(config)],
        env=dict(variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return read_run(config.with_suffix(""))


def needs(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return program


@pytest.mark.parametrize(
    "launcher",
    [
        ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2"],
        ["mpiexec.hydra", "-launcher", "fork", "-n", "2"],
    ],
    ids=["Open MPI", "MPICH"],
)
def test_mpirun(launcher, corpus_home, tmp_path):
    needs(launcher[0])
    view = train(launcher, write_config(corpus_home, tmp_path))
    assert [(start.rank, start.size) for start in view.starts] == [(0, 2), (1, 2)]
    assert {(start.interface, start.address) for start in view.starts} == {("lo", "127.0.0.1")}
    assert view.ends[-1].reason == "max_steps"


@pytest.fixture(scope="module")
def slurm():
    absent = missing()
    if absent or os.geteuid() != 0:
        pytest.skip(f"no Slurm here: {', '.join(absent) or 'needs root'}")
    with Slurm() as slurm:
        yield slurm


def test_srun_on_two_nodes(slurm, corpus_home, tmp_path):
    config = write_config(corpus_home, tmp_path)
    view = train(["srun", "-N2", "-n2"], config, {**os.environ, **slurm.variables})
    assert [(start.rank, start.size) for start in view.starts] == [(0, 2), (1, 2)]
    assert view.ends[-1].reason == "max_steps"


def test_srun_with_variables_that_contradict_it_shows_both(slurm, corpus_home, tmp_path):
    done = subprocess.run(
        ["srun", "-N1", "-n1", *UNISONO, "train", write_config(corpus_home, tmp_path)],
        env={**os.environ, **slurm.variables, "WORLD_SIZE": "4"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "WORLD_SIZE is 4, but SLURM_NTASKS is 1" in done.stderr


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("what", ["config", "corpus"])
def test_a_node_with_something_else_is_named_with_the_difference(what, corpus_home, tmp_path):
    config = write_config(corpus_home, tmp_path)
    plan = LabPlan(nodes=2)
    with Lab(plan) as lab:
        if what == "config":
            other = tmp_path / "other.toml"
            other.write_text(config.read_text().replace("max_steps = 2", "max_steps = 3"))
            mount(lab, other, config)
        else:
            mount(lab, other_corpus(tmp_path / "other"), corpus_home / "corpus")
        agents = [(node, plan_agent(plan, node, ["train", str(config)])) for node in (0, 1)]
        running = lab.fan_out(agents)
        said = [event.text for event in running.events() if isinstance(event, OutputLine)]
    assert running.exit_code == 4, said
    wanted = {
        "config": "on the setting train.max_steps: process 0 on node0 has 2, "
        "process 1 on node1 has 3",
        "corpus": "on the corpus: process 0 on node0 has ",
    }
    assert any(wanted[what] in line for line in said), said
    assert any("where: process 1 on node1" in line for line in said)


def other_corpus(home):
    for seed, name in enumerate(("train", "valid", "test"), start=4):
        write_text(home / "text", name, 100, seed=seed)
    settings = tiny_settings(home)
    for _ in prepare_corpus(settings.data, settings.corpus):
        pass
    return home / "corpus"


def mount(lab, ours, theirs):
    """Let node1 have `ours` where all have `theirs`."""
    done = lab.run(1, ["mount", "--bind", str(ours), str(theirs)])
    assert done.returncode == 0, done.stderr
