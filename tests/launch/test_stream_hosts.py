"""Records of machines without a shared disk, streamed to where `launch` was called."""

import json
import sys

import pytest

from support.ssh import SshLab
from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.records.view import read_run
from unisono.report.page import write_report
from unisono.train.checkpoints.checkpoint import verify

pytestmark = [
    pytest.mark.ranks,
    pytest.mark.long(minutes=1),
    pytest.mark.usefixtures("able"),
    pytest.mark.timeout(900),
]

UNISONO = [sys.executable, "-m", "unisono"]
NODES = 3


@pytest.fixture(scope="module")
def home(corpus_home, tmp_path_factory):
    """A config whose runs are below `runs`, of which each machine may have its own."""
    home = tmp_path_factory.mktemp("stream")
    for name in ("runs", "shared", *(f"disk{node}" for node in range(NODES))):
        (home / name).mkdir()
    settings = tiny_settings(corpus_home, train={"max_steps": 6}, monitor={"on": True})
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


def command(machines, run, *words):
    here = ["--ssh-config", machines.config, "--directory", machines.home]
    words = ["launch", machines.home / "my.toml", *here, "--set", f"run={run}", *words]
    return [*UNISONO, *map(str, words)]


def records(run):
    """Return the bytes of all files of a run that only grow, by name."""
    found = [path for place in ("events", "monitor") for path in (run / place).iterdir()]
    return {str(path.relative_to(run)): path.read_bytes() for path in found}


def without_times(value):
    """Return a report without what depends on how long things took."""
    if isinstance(value, dict):
        timed = ("summary", "evidence", "verdict", "advice", "run", "headline", "bottleneck")
        kept = {key: one for key, one in value.items() if key not in (*timed, "findings")}
        names = {**kept, "files": sorted(kept["files"])} if "files" in kept else kept
        return {key: without_times(one) for key, one in names.items() if "bytes" not in key}
    if isinstance(value, list):
        return [without_times(one) for one in value]
    return "a number" if value is None or isinstance(value, float) else value


def exact_report(run):
    write_report(run)
    return {**json.loads((run / "report.json").read_text()), "run": ""}


def test_three_machines_without_a_shared_disk_give_the_report_of_one_with_it(machines, home):
    hosts = ["--hosts", "node0:1,node1:1,node2:1"]
    apart, shared = home / "here", home / "shared" / "run"
    done = machines.run(
        0,
        command(
            *(machines, home / "runs" / "run", *hosts),
            *("--records", apart, "--fetch-checkpoints"),
        ),
    )
    assert done.returncode == 0, done.stderr
    assert "wait:" not in done.stderr
    assert "does not" not in done.stderr
    # On the machines, each has what its own process recorded; here is all of it.
    disks = [home / f"disk{node}" / "run" for node in range(NODES)]
    own = {name: data for disk in reversed(disks) for name, data in records(disk).items()}
    assert len(own) == 2 * NODES
    assert records(apart) == own
    assert len(records(disks[1])) == 2
    # The leading machine has the others', too.
    assert records(disks[0]) == own
    for name in ("config.toml", "status.json", "losses/tokens.npy", "checkpoints/latest"):
        assert (apart / name).read_bytes() == (disks[0] / name).read_bytes()
    assert verify(apart / "checkpoints" / "step-0000006").step == 6
    # So the leading machine and this one report the same of the same run, to the last digit.
    assert exact_report(apart) == exact_report(disks[0])
    # With a shared disk there is nothing to fetch, and the report is the same.
    done = machines.run(0, command(machines, shared, *hosts))
    assert done.returncode == 0, done.stderr
    reports = []
    for run in (apart, shared):
        assert sorted(records(run)) == sorted(own)
        reports.append(exact_report(run))
    assert without_times(reports[0]) == without_times(reports[1])
    assert [s.loss for s in read_run(apart).steps] == [s.loss for s in read_run(shared).steps]
