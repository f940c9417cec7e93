"""The example of rented machines: its ten lines in a laboratory, its recipes as files."""

import hashlib
import os
import re
import shlex
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.bare import BareLab, has_bare_python
from support.ssh import SSHD
from support.tiny import tiny_settings, write_text
from support.wheels import wheel_with
from unisono.config.load import to_toml
from unisono.records.view import read_run
from unisono.train.checkpoints.checkpoint import verify

EXAMPLE = Path(__file__).parents[1] / "examples" / "rented-machines"
README = (EXAMPLE / "README.md").read_text("utf-8")
PACKAGES = site.getsitepackages()[0]


def ten_lines():
    (block,) = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
    return block.splitlines()


def recipe(name):
    return yaml.safe_load((EXAMPLE / name).read_text("utf-8"))


def test_it_is_ten_lines():
    assert len(ten_lines()) == 10


@pytest.fixture
def place(tmp_path):
    """A laptop with a config, its text and a lock file, and an index of packages."""
    for name in ("laptop", "bin"):
        (tmp_path / name).mkdir()
    laptop, wheels = tmp_path / "laptop", tmp_path / "index" / "ours"
    for name, pairs in (("train", 200), ("valid", 20), ("test", 20)):
        write_text(laptop / "text", name, pairs, seed=pairs)
    cost = {"per_machine_hour": 2.5}
    tables = {"train": {"max_steps": 6}, "corpus": {"directory": "corpora/tiny"}}
    settings = tiny_settings(Path(), run="runs/train", cost=cost, **tables)
    (laptop / "train.toml").write_text(to_toml(settings))
    wheels.mkdir(parents=True)
    made = wheel_with(wheels, "ours", {"ours.pth": f"{PACKAGES}\n"})
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    (laptop / "ours.lock").write_text(f"ours==1.0 --hash=sha256:{digest}\n")
    return tmp_path


def programs(place, lab):
    """Make ssh use the keys of the laboratory, under the names a and b."""
    names = "".join(f"Host {name}\n    HostName node{at}\n" for at, name in enumerate("ab"))
    config = place / "client_config"
    config.write_text(names + lab.config.read_text())
    ssh = shlex.join([shutil.which("ssh"), "-F", str(config)])
    unisono = shlex.join([sys.executable, "-m", "unisono"])
    for name, start in (("ssh", ssh), ("unisono", unisono)):
        program = place / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
        program.chmod(0o755)


@pytest.mark.ranks
@pytest.mark.long(minutes=3)
@pytest.mark.usefixtures("able")
@pytest.mark.timeout(900)
@pytest.mark.skipif(SSHD is None, reason="no ssh server here: apt-get install openssh-server")
@pytest.mark.skipif(not has_bare_python(), reason="the system has no Python 3.11 of its own")
def test_the_ten_lines_bring_a_run_from_blank_machines_to_its_report(place):
    told = {}
    with BareLab(place, 3, shared=[PACKAGES], index=place / "index") as lab:
        programs(place, lab)
        variables = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
        for line in ten_lines():
            here = line.replace("unisono corpora get wmt16-en-de && ", "")
            here = here.replace("--sync", "--sync --lock ours.lock")
            words = ["bash", "-c", f"cd {place / 'laptop'} && {here}"]
            done = lab.run(lab.laptop, words, variables=variables, timeout=600)
            assert done.returncode == 0, f"{here}\n{done.stdout}{done.stderr}"
            told[line.partition("#")[0].strip()] = done.stdout + done.stderr
        left = [lab.there(node, "find", "/root", "-path", "*unisono*") for node in (0, 1)]
    lines = list(told.values())
    assert "# a: would bring Unisono (" in lines[2]
    assert "installed the packages" in lines[3]
    assert "all are ready" in lines[3]
    for later in (lines[4], lines[5]):
        assert "b | has everything already" in later
    assert "now stand idle, for 5.00 USD an hour" in lines[6]
    assert "has all that a, b recorded" in lines[7]
    assert "removed" in lines[9]
    assert "left alone" not in lines[9]
    assert left == ["", ""]
    run = place / "laptop" / "runs" / "train"
    view = read_run(run)
    assert len(view.steps) == 6
    assert set(view.ranks) == {0, 1, 2, 3}
    assert (run / "report.html").is_file()
    assert verify(run / "checkpoints" / "step-0000006").step == 6


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
