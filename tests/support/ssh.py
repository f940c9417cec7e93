"""Machines of a laboratory that can be reached over ssh, with keys and settings of their own.

Nothing of the user's is touched: the client reads `config` and no other file.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan

SSHD = shutil.which("sshd", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
PRIVILEGE_SEPARATION = Path("/run/sshd")
SOURCE = Path(__file__).parents[2] / "src"

SERVER = """\
Port 22
HostKey {home}/host_key
AuthorizedKeysFile {home}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
PrintMotd no
SetEnv {variables}
{further}
"""

CLIENT = """\
Host *
    User root
    IdentityFile {home}/key
    IdentitiesOnly yes
    UserKnownHostsFile {home}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
"""


class SshLab(Lab):
    """Machines called node0, node1, … with an sshd each; `config` is for `ssh -F`.

    `variables` holds, by node, what the processes that are started over ssh get to see.
    """

    usual_variables = {"PYTHONPATH": str(SOURCE)}

    def __init__(self, home, nodes=2, variables=None, **plan):
        super().__init__(LabPlan(nodes=nodes, **plan))
        self.home, self.config = home, home / "ssh_config"
        self._further = variables or {}

    def __enter__(self):
        PRIVILEGE_SEPARATION.mkdir(exist_ok=True)
        for name in ("host_key", "key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.home / name]
            subprocess.run(command, check=True)
        public = (self.home / "host_key.pub").read_text()
        known = [f"{self.name(node)} {public}" for node in range(self.plan.nodes)]
        (self.home / "known_hosts").write_text("".join(known))
        self.config.write_text(CLIENT.format(home=self.home))
        super().__enter__()
        for node in range(self.plan.nodes):
            self._serve(node)
        return self

    def server_settings(self, node):
        """Return further settings for the ssh server of a node."""
        return ""

    def _serve(self, node):
        variables = {**self.usual_variables, **self._further.get(node, {})}
        path = self.home / f"sshd_config_{node}"
        settings = " ".join(f"{name}={value}" for name, value in variables.items())
        path.write_text(
            SERVER.format(
                home=self.home, variables=settings, further=self.server_settings(node)
            )
        )
        log = self.home / f"sshd_{node}.log"
        self.start(node, [SSHD, "-D", "-f", str(path), "-E", str(log)])
        answer = ["bash", "-c", f"read line < /dev/tcp/{self.address(node)}/22 && echo $line"]
        deadline = time.monotonic() + 600
        while "SSH" not in self.run(node, answer, timeout=30).stdout:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def wait_for_port(self, node, port):
        """Wait until a program on a node listens at a port."""
        connect = ["bash", "-c", f": < /dev/tcp/{self.address(node)}/{port}"]
        deadline = time.monotonic() + 600
        while self.run(node, connect, timeout=30).returncode:
            assert time.monotonic() < deadline
            time.sleep(0.05)
