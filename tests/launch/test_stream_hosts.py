"""Records of machines without a shared disk, streamed to where `launch` was called."""

import json
import sys

import pytest

from support.ssh import SshLab
from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.records.view import read_run
from unisono.report.page import write_report

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able"), pytest.mark.timeout(900)]

UNISONO = [sys.executable, "-m", "unisono"]
NODES = 3


@pytest.fixture(scope="module")
def home(corpus_home, tmp_path_factory):
    """A config whose runs are below `runs`, of which each machine may have its own."""
    home = tmp_path_factory.mktemp("stream")
    for name in ("runs", "shared", *(f"disk{node}" for node in range(NODES))):
        (home / name).mkdir()
    settings = tiny_settings(
        corpus_home, train={"max_steps": 6}, monitor={"on": True, "every": "0.2 s"}
    )
    (home / "my.toml").write_text(to_toml(settings))
    return home


@pytest.fixture(scope="module")
def machines(home):
    """Three machines, each with its own disk at `runs`; what they share is the rest."""
    with SshLab(home, NODES) as lab:
        for node in range(NODES):
            mount = ["mount", "--bind", str(home / f"disk{node}"), str(home / "runs")]
            assert lab.run(node, mount).returncode == 0
        yield lab


def launch(machines, run, *words):
    """Launch from a place with a disk of its own: node0 before its mount is another."""
    return machines.run(0, launch_words(machines, run, *words))


def launch_words(machines, run, *words):
    here = ["--ssh-config", machines.config, "--directory", machines.home]
    command = ["launch", machines.home / "my.toml", *here, "--set", f"run={run}", *words]
    return [*UNISONO, *map(str, command)]


def without_times(value):
    """Return a report without what differs between two runs of the same settings."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items()}
    return value


def test_three_machines_without_a_shared_disk(machines, home):
    apart = launch(
        *(machines, home / "runs" / "apart", "--hosts", "node0:1,node1:1,node2:1"),
        *("--records", home / "here"),
    )
    assert apart.returncode == 0, apart.stderr
    print(apart.stderr)
    view = read_run(home / "here")
    assert sorted(start.host for start in view.starts) == ["node0", "node1", "node2"]
    write_report(home / "here")
    print(json.loads((home / "here" / "report.json").read_text()))
    assert 0
