"""A Slurm cluster of two nodes on this machine, for as long as a test needs it.

Nothing of it is a service of the system: the daemons run in the foreground as children of the
test, with a munge of their own, and die with it; all their files are in one directory.
"""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "sinfo", "srun", "sbatch", "setpriv")
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
NODES = ("n1", "n2")
CPUS = 2
START_SECONDS = 600

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
SlurmctldPort={ports[0]}
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
SlurmdSpoolDir={home}/spool-%n
StateSaveLocation={home}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
PlugStackConfig=/dev/null
ReturnToService=2
KillWait=30
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE OverSubscribe=FORCE:4 State=UP
"""


def missing():
    """Return the programs that a cluster needs and that are not here."""
    return [name for name in NEEDED if shutil.which(name, path=SEARCH_PATH) is None]


class Slurm:
    """Two nodes, n1 and n2, ready when the `with` block begins; `variables` lead to them."""

    def __init__(self):
        self._open = ExitStack()

    def __enter__(self):
        with ExitStack() as undo:
            # Not below pytest's directory: the path of a socket has to be short.
            self.home = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
            self.variables = {"SLURM_CONF": str(self.home / "slurm.conf"), "PATH": SEARCH_PATH}
            self._log = undo.enter_context((self.home / "log").open("w"))
            self._prepare()
            for command in self._daemons():
                undo.callback(_end, self._start(command))
            self._wait_until_idle()
            self._open = undo.pop_all()
        return self

    def __exit__(self, *error):
        self._open.close()

    def run(self, *words, **options):
        """Run a command of Slurm; return its exit code and what it said."""
        environment = {**os.environ, **self.variables, **options.pop("env", {})}
        return subprocess.run(
            list(map(str, words)),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            **options,
        )

    def _prepare(self):
        (self.home / "munge").mkdir(mode=0o700)
        (self.home / "state").mkdir()
        key = self.home / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        (self.home / "slurm.conf").write_text(
            CONFIG.format(
                host=socket.gethostname().split(".")[0],
                user=getpass.getuser(),
                home=self.home,
                ports=_free_ports(1 + len(NODES)),
                cpus=CPUS,
            )
        )

    def _daemons(self):
        munge, config = self.home / "munge", self.variables["SLURM_CONF"]
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{option}={munge / name}" for option, name in files.items()]
        yield ["munged", "--foreground", "--force", f"--log-file={munge / 'log'}", *options]
        yield ["slurmctld", "-D", "-f", config]
        for node in NODES:
            yield ["slurmd", "-D", "-N", node, "-f", config]

    def _start(self, command):
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            env={**os.environ, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def _wait_until_idle(self):
        deadline = time.monotonic() + START_SECONDS
        while self.run("sinfo", "--noheader", "-o", "%T %D").stdout.strip() != "idle 2":
            if time.monotonic() > deadline:
                raise RuntimeError((self.home / "log").read_text())
            time.sleep(0.1)


def _free_ports(count):
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _end(process):
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
