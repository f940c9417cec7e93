"""`launch --sync` and `--teardown`: machines that have nothing but ssh and Python."""

import hashlib
import json
import shutil
import site
import subprocess
import sys

import pytest

from support.bare import BareLab, has_bare_python
from support.tiny import tiny_settings
from support.wheels import wheel_with
from unisono.config.load import to_toml
from unisono.records.view import read_run

pytestmark = [
    pytest.mark.ranks,
    pytest.mark.long(minutes=3),
    pytest.mark.usefixtures("able"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not has_bare_python(), reason="the system has no Python 3.11 of its own"
    ),
]
HOME = ".cache/unisono"
PACKAGES = site.getsitepackages()[0]


@pytest.fixture(scope="module")
def home(corpus_home, tmp_path_factory):
    """A directory with a config, and a small lock file: its wheel leads to our packages."""
    home = tmp_path_factory.mktemp("bring") / 'it\'s "mine"'
    home.mkdir()
    shutil.copytree(corpus_home / "corpus", home / "corpus")
    settings = tiny_settings(
        corpus_home,
        run=str(home / "runs" / "my run's"),
        corpus={"directory": str(home / "corpus")},
        train={"max_steps": 4},
    )
    (home / "my config's.toml").write_text(to_toml(settings))
    wheels = home.parent / "index" / "ours"
    wheels.mkdir(parents=True)
    made = wheel_with(wheels, "ours", {"ours.pth": f"{PACKAGES}\n"})
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    (home / "tiny.lock").write_text(f"ours==1.0 \\\n    --hash=sha256:{digest}\n")
    return home


@pytest.fixture(scope="module")
def machines(home):
    index = home.parent / "index"
    with BareLab(home.parent, 4, shared=[PACKAGES], index=index) as lab:
        yield lab


def launch(machines, home, *words, hosts="node0:1,node1:1"):
    """Call `unisono launch` on the laptop."""
    command = [sys.executable, "-m", "unisono", "launch", home / "my config's.toml"]
    command += ["--hosts", hosts, "--ssh-config", machines.config, *words]
    variables = {"XDG_CACHE_HOME": str(home / "cache"), "PIP_NO_INDEX": "1"}
    variables["PIP_FIND_LINKS"] = str(home.parent / "index" / "ours")
    return machines.run(machines.laptop, list(map(str, command)), variables=variables)


def sync(machines, home, *words, **more):
    chosen = ["--sync", "--offline", "--lock", home / "tiny.lock"]
    return launch(machines, home, *chosen, *words, **more)


def brought(machines, node):
    """Return what is in the directory on a node."""
    return machines.there(node, "ls", f"/root/{HOME}").split()


def test_two_fresh_machines_train_and_the_second_call_brings_nothing(machines, home):
    planned = sync(machines, home, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "# node0: would bring Unisono (" in planned.stdout
    assert machines.there(0, "ls", "-A", "/root") == ""
    done = sync(machines, home)
    assert done.returncode == 0, done.stderr
    assert "installed the packages" in done.stderr
    run = home / "runs" / "my run's"
    assert (run / "events" / "rank-0001.jsonl").is_file()
    assert json.loads((run / "status.json").read_bytes())["step"] == 4
    before = brought(machines, 0)
    again = sync(machines, home)
    assert again.returncode == 0, again.stderr
    assert "node0 | has everything already\n" in again.stderr
    assert brought(machines, 0) == before
    planned = sync(machines, home, "--dry-run")
    assert "# node1: would bring nothing" in planned.stdout


def test_three_machines_get_packages_from_an_index_and_start_from_weights(machines, home):
    """node2 is blank, the others may have something of the test before."""
    base = home / "base weights"
    command = [sys.executable, "-m", "unisono", "train", str(home / "my config's.toml")]
    command += ["--set", f"run={base}", "--set", "train.max_steps=2"]
    subprocess.run(command, check=True, capture_output=True)
    run = home / "runs" / "adapted"
    words = ["--sync", "--lock", home / "tiny.lock", "--set", f"start.from={base}"]
    words += ["--set", f"run={run}"]
    hosts = "node0:1,node1:1,node2:1"
    done = launch(machines, home, *words, hosts=hosts)
    assert done.returncode == 0, done.stderr
    assert "node2 | brought" in done.stderr and "installed the packages" in done.stderr
    view = read_run(run)
    assert set(view.ranks) == {0, 1, 2}
    (leading,) = [start for start in view.starts if start.rank == 0]
    manifest = (base / "bundle" / "manifest.json").read_bytes()
    assert leading.start_sha256 == hashlib.sha256(manifest).hexdigest()
    assert leading.start.startswith("start-")
    again = launch(machines, home, *words, hosts=hosts)
    assert again.returncode == 0, again.stderr
    assert "node2 | has everything already\n" in again.stderr
