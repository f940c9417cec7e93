"""`unisono selftest --hosts` on two machines of a laboratory, each with a disk of its own."""

import json
import sys

import pytest

from support.ssh import SshLab
from unisono.selftest.trial import SAVED_AT, TRIAL_PREFIX

pytestmark = [pytest.mark.ranks, pytest.mark.long(minutes=3), pytest.mark.usefixtures("able")]

NODES = 2


@pytest.fixture
def machines(tmp_path):
    with SshLab(tmp_path, NODES) as lab:
        (tmp_path / "trials").mkdir()
        for node in range(NODES):
            (tmp_path / f"disk{node}").mkdir()
            mount = ["mount", "--bind", f"{tmp_path}/disk{node}", f"{tmp_path}/trials"]
            assert lab.run(node, mount).returncode == 0
        yield lab


def test_two_machines_without_a_shared_disk_pass(machines, tmp_path):
    file = tmp_path / "selftest.json"
    where = ["--hosts=node0:1,node1:1", f"--ssh-config={machines.config}"]
    where += [f"--directory={tmp_path}/trials", f"--json={file}"]
    done = machines.run(0, [sys.executable, "-m", "unisono", "selftest", *where])
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(file.read_text())
    lines = {line["name"]: line for line in told["lines"]}
    assert told["hosts"] == ["node0:1", "node1:1"]
    assert all(line["passed"] for line in told["lines"]), told
    assert "2 processes" in lines["versions and devices"]["text"]
    assert lines["all-reduce"]["figures"]["gigabytes_per_second"] > 0
    assert lines["a killed process"]["text"].startswith("process 1 was named after")
    assert lines["save, kill, resume"]["figures"]["began"] >= SAVED_AT
    for node in range(NODES):  # both machines are clean again
        assert not list((tmp_path / f"disk{node}").glob(f"{TRIAL_PREFIX}*"))
