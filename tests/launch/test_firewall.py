"""The firewall of a run, set for real on a machine of a laboratory."""

import shutil
import signal
import subprocess
import sys

import pytest

from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able")]

PORT = 29500
SERVER = (
    f"import socket, time; server = socket.create_server(('0.0.0.0', {PORT})); "
    "print('up', flush=True); time.sleep(600)"
)
CALLER = (
    "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2)"
)
AS_USER = """
import os, sys
from unisono.launch.remote_wrapper import main
os.setuid(int(sys.argv[1]))
sys.exit(main(sys.argv[2:]))
"""
WRAPPER = [sys.executable, "-m", "unisono.launch.remote_wrapper"]
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@pytest.fixture(scope="module")
def lab(able):
    if shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip("no program nft here: apt-get install nftables")
    with Lab(LabPlan(nodes=3)) as lab:
        yield lab


def reaches(lab, node):
    call = [sys.executable, "-c", CALLER, lab.address(0), str(PORT)]
    return lab.run(node, call).returncode == 0


def test_only_the_machines_of_the_run_get_in_and_only_while_it_lasts(lab):
    option = f"--firewall={PORT},{lab.address(0)},{lab.address(1)}"
    job = lab.start(0, [*WRAPPER, option, "--", sys.executable, "-c", SERVER], **PIPES)
    assert job.stdout.readline() == "up\n"
    assert [reaches(lab, node) for node in (0, 1, 2)] == [True, True, False]
    job.send_signal(signal.SIGTERM)
    job.wait()
    assert lab.run(0, ["nft", "list", "tables"]).stdout == ""


@pytest.mark.parametrize(
    ("user", "machine", "says"),
    [("65534", "10.88.0.1", "cannot set the firewall"), ("0", "x; flush", "is none")],
)
def test_where_it_cannot_be_set_nothing_starts(lab, user, machine, says):
    """As a user without rights, and with what is no address."""
    words = [f"--firewall={PORT},{machine}", "--", "echo", "started"]
    done = lab.run(0, [sys.executable, "-c", AS_USER, user, *words])
    assert done.returncode == 4
    assert "started" not in done.stdout
    assert says in done.stderr
