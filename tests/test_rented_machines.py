"""The example of rented machines: its ten lines in a laboratory, its recipes as files."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support import ssh
from support.ssh import SshLab
from support.tiny import tiny_settings, write_text
from unisono.config.load import to_toml
from unisono.records.view import read_run
from unisono.train.checkpoints.checkpoint import verify

EXAMPLE = Path(__file__).parents[1] / "examples" / "rented-machines"
README = (EXAMPLE / "README.md").read_text("utf-8")
LAPTOP = 2  # the node that launches, and does not train
# What needs a network that we do not have, or is there already.
LEFT_OUT = ("unisono simulate", "apt-get")


def ten_lines():
    (block,) = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
    return block.splitlines()


def recipe(name):
    return yaml.safe_load((EXAMPLE / name).read_text("utf-8"))


def test_it_is_ten_lines():
    assert len(ten_lines()) == 10


@pytest.fixture
def place(tmp_path):
    """A place for what each machine and the laptop have of their own."""
    for name in ("root", "disk0", "disk1", "disk2", "bin"):
        (tmp_path / name).mkdir()
    laptop = tmp_path / "disk2"
    for name, pairs in (("train", 200), ("valid", 20), ("test", 20)):
        write_text(laptop / "text", name, pairs, seed=pairs)
    cost = {"per_machine_hour": 2.5}
    tables = {"train": {"max_steps": 6}, "corpus": {"directory": "corpora/tiny"}}
    settings = tiny_settings(Path(), run="runs/train", cost=cost, **tables)
    (laptop / "train.toml").write_text(to_toml(settings))
    (laptop / "unisono-0.2.0-py3-none-any.whl").touch()
    return tmp_path


def programs(place, lab):
    """Make ssh and scp use the keys of the laboratory, under the names a and b."""
    names = "".join(f"Host {name}\n    HostName node{at}\n" for at, name in enumerate("ab"))
    config = place / "client_config"
    config.write_text(names + lab.config.read_text())
    # The sshd of the laboratory has no sftp: -O copies without it.
    for name, option in (("ssh", ""), ("scp", "-O")):
        start = shlex.join([shutil.which(name), *option.split(), "-F", str(config)])
        (place / "bin" / name).write_text(f'#!/bin/sh\nexec {start} "$@"\n')
    unisono = shlex.join([sys.executable, "-m", "unisono"])
    (place / "bin" / "unisono").write_text(f'#!/bin/sh\nexec {unisono} "$@"\n')
    for program in (place / "bin").iterdir():
        program.chmod(0o755)


@pytest.mark.ranks
@pytest.mark.long(minutes=2)
@pytest.mark.usefixtures("able")
@pytest.mark.timeout(900)
def test_the_ten_lines_bring_a_run_from_blank_disks_to_its_report(place):
    if ssh.SSHD is None or shutil.which("scp") is None:
        pytest.skip("no ssh server here: apt-get install openssh-server")
    root = place / "root"
    with SshLab(place, 3) as lab:
        programs(place, lab)
        for node in range(3):
            mount = ["mount", "--bind", str(place / f"disk{node}"), str(root)]
            assert lab.run(node, mount).returncode == 0
        path = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
        told = ""
        for line in ten_lines():
            if any(words in line for words in LEFT_OUT):
                continue
            here = line.replace("unisono corpora get wmt16-en-de && ", "")
            here = here.replace("/root/venv/bin/python", sys.executable)
            here = here.replace("/root", str(root))
            done = lab.run(
                LAPTOP, ["bash", "-c", f"cd {root} && {here}"], variables=path, timeout=600
            )
            assert done.returncode == 0, f"{here}\n{done.stdout}{done.stderr}"
            told += done.stdout + done.stderr
    assert "all are ready" in told
    assert "has all that a, b recorded" in told
    assert "now stand idle, for 5.00 USD an hour" in told
    run = place / "disk2" / "runs" / "train"
    view = read_run(run)
    assert len(view.steps) == 6
    assert set(view.ranks) == {0, 1, 2, 3}
    assert (run / "report.html").is_file()
    assert verify(run / "checkpoints" / "step-0000006").step == 6
    assert not (place / "disk0" / "report.html").exists()


def test_the_variables_of_skypilot_and_dstack_make_a_run():
    for name in ("skypilot.yaml", "dstack.yaml"):
        text = (EXAMPLE / name).read_text("utf-8")
        command = (
            recipe(name)["run"] if name == "skypilot.yaml" else recipe(name)["commands"][-1]
        )
        checked = subprocess.run(["bash", "-n"], input=command, text=True, check=False)
        assert checked.returncode == 0, name
        words = shlex.split(command)
        assert words[-4:] == ["-m", "unisono", "train", "train.toml"]
        assert {"--nnodes", "--nproc-per-node", "--node-rank", "--master-addr"} <= set(words)
        assert "UNISONO_SECRET" in text
        assert not re.search(r"[0-9a-f]{32}", text)


def test_a_spot_machine_continues_and_gives_up_on_settings_only(tmp_path):
    (file,) = recipe("spot.yaml")["write_files"]
    unit = dict(
        line.split("=", 1) for line in file["content"].splitlines() if re.match(r"\w+=", line)
    )
    assert unit["ExecStart"].split()[1:] == ["launch", "train.toml", "--restarts", "5"]
    assert unit["SuccessExitStatus"] == "75"
    assert unit["RestartPreventExitStatus"].split() == ["2", "3"]
    if shutil.which("systemd-analyze"):
        path = tmp_path / Path(file["path"]).name
        path.write_text(file["content"].replace("/opt/unisono/bin/unisono", "/bin/true"))
        subprocess.run(["systemd-analyze", "verify", str(path)], check=True)


@pytest.mark.parametrize("name", ["cloud-init.yaml", "spot.yaml"])
def test_a_fresh_machine_gets_what_a_run_needs(name):
    assert (EXAMPLE / name).read_text("utf-8").startswith("#cloud-config\n")
    data = recipe(name)
    assert "python3-venv" in data["packages"]
    assert data["ssh_pwauth"] is False
    assert ["python3", "-m", "venv", "/opt/unisono"] in data["runcmd"]
