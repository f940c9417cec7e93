"""Connections that say nothing for a while, through a proxy that closes idle ones."""

import sys

import pytest

from support.ssh import SshLab
from unisono.launch.ssh import Ssh

pytestmark = [pytest.mark.ranks, pytest.mark.long(minutes=1), pytest.mark.usefixtures("able")]

IDLE_SECONDS, SILENT_SECONDS = 15, 20
# Joins standard input and output to port 22 of a machine, until nothing was said for a while.
PROXY = f"""
import os, select, socket, sys
line = socket.create_connection((sys.argv[1], 22))
while ready := select.select([0, line], [], [], {IDLE_SECONDS})[0]:
    for one in ready:
        data = os.read(0, 65536) if one == 0 else line.recv(65536)
        if not data:
            sys.exit(0)
        os.write(1, data) if one is line else line.sendall(data)
"""


@pytest.mark.parametrize("alive", [True, False])
def test_a_silent_command_outlives_a_proxy_that_closes_idle_connections(alive, tmp_path):
    (tmp_path / "proxy.py").write_text(PROXY)
    with SshLab(tmp_path, 2) as lab:
        through = f"Host *\n    ProxyCommand {sys.executable} {tmp_path / 'proxy.py'} %h\n"
        lab.config.write_text(through + lab.config.read_text())
        words = list(Ssh(str(lab.config)).command("node1", ["sleep", str(SILENT_SECONDS)]))
        if not alive:  # the proxy does what it is for
            words = [
                word.replace("ServerAliveInterval=10", "ServerAliveInterval=0")
                for word in words
            ]
        done = lab.run(0, words)
        assert (done.returncode == 0) is alive, done.stderr
