"""A real Slurm of two nodes on this machine: no service, no file in /etc, no fixed port."""

import os
import secrets
import shutil
import socket
import subprocess
import time

from support.ranks import free_port

PROGRAMS = "munged", "slurmctld", "slurmd", "srun", "sinfo"
SEARCH = f"{os.environ['PATH']}:/usr/sbin:/sbin"

CONFIG = """\
ClusterName=unisono
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/%n.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs={cores}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs={cores}
PartitionName=all Nodes=n1,n2 Default=YES State=UP MaxTime=INFINITE
"""


def missing_programs():
    """Return what is not installed of it."""
    return [name for name in PROGRAMS if shutil.which(name, path=SEARCH) is None]


class Slurm:
    """A controller and two nodes, from entering to leaving the `with` block."""

    def __init__(self, home):
        self.home, self._processes = home, []

    def __enter__(self):
        ports = [free_port() for _ in range(3)]
        (self.home / "state").mkdir()
        key = self.home / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        (self.home / "slurm.conf").write_text(
            CONFIG.format(
                home=self.home,
                host=socket.gethostname(),
                user="root",
                controller=ports[0],
                first=ports[1],
                second=ports[2],
                cores=os.cpu_count(),
            )
        )
        try:
            self._start(
                *("munged", "--foreground", "--force", f"--key-file={key}"),
                f"--socket={self.home}/munge.socket",
                *(f"--{kind}-file={self.home}/munge.{kind}" for kind in ("pid", "log", "seed")),
            )
            self._until(lambda: (self.home / "munge.socket").exists())
            self._start("slurmctld", "-D")
            for node in ("n1", "n2"):
                self._start("slurmd", "-D", "-N", node)
            self._until(self._is_up)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(timeout=60)

    @property
    def environment(self):
        """Return the variables with which `srun` finds this Slurm."""
        return {**os.environ, "PATH": SEARCH, "SLURM_CONF": str(self.home / "slurm.conf")}

    def _start(self, *argv):
        program = shutil.which(argv[0], path=SEARCH)
        with (self.home / f"{argv[0]}.out").open("ab") as said:
            self._processes.append(
                subprocess.Popen(
                    [program, *argv[1:]], env=self.environment, stdout=said, stderr=said
                )
            )

    def _is_up(self):
        states = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format=%T"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return states.stdout.split() == ["idle", "idle"]

    def _until(self, happened, seconds=60):
        deadline = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > deadline:
                logs = [path.read_text() for path in sorted(self.home.glob("*.[lo][ou][gt]"))]
                raise AssertionError("Slurm does not start:\n" + "\n".join(logs))
            time.sleep(0.1)
