"""Which process this is, read from the environment variables of its launcher. No torch here.

Every launcher has its own names for the same numbers. The innermost launcher counts: torchrun,
then mpirun, then Slurm's srun, which may have started either of them.

torchrun may leave out a machine whose clock is 20 s behind, train on the others, and report
success. It tells its workers how many machines there are, not how many there should be, so
`check_nodes` compares the two.
"""

import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psutil

from unisono.errors import ConfigError, RunError
from unisono.secure.secret import SECRET_FILE, secret_of

Variables = Mapping[str, str]

LAUNCHER_FIX = "start with torchrun, mpirun, srun or `unisono launch`; to run alone, unset them"
# PyTorchJob and PAI count machines where torchrun counts processes.
NODE_RANKS = (
    "if RANK and WORLD_SIZE number machines (PyTorchJob, PAI), start torchrun on each: "
    '`torchrun --nnodes "$WORLD_SIZE" --node-rank "$RANK" --nproc-per-node 1 '
    '--master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" -m unisono train …`; '
    "otherwise " + LAUNCHER_FIX
)
FIRST_PORT, PORTS = 20_000, 12_000  # below the range of ephemeral ports
NODES, OUR_AGENT = "UNISONO_NODES", "UNISONO_AGENT"  # our own agent sets them
NO_SECRET = (
    "warning: this run has no secret, so whoever reaches its ports can join or disturb it; set "
    f"{SECRET_FILE} on all machines to a file of mode 600, or start with `unisono launch`"
)
FOREIGN_TORCHRUN = (
    "warning: torchrun's own store answers everybody, and with --standalone or c10d torchrun "
    "runs code that it finds there: whoever reaches its port can act as you; start with "
    "`unisono launch`, which keeps its own store, or let a firewall close the port"
)


@dataclass(frozen=True)
class LauncherEnv:
    """One process of a run. `address` is empty if the launcher does not name one."""

    launcher: str = "alone"
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    job: str = ""
    hosts: str = ""
    address: str = ""
    port: int = 0

    @property
    def on_one_machine(self) -> bool:
        """Whether all processes of the run are on this machine."""
        return self.local_size == self.size


@dataclass(frozen=True)
class _Launcher:
    """The names a launcher has for rank, size, rank on the machine, size on the machine."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    job: tuple[str, ...] = ()
    hosts: str = ""


def _mpi(name: str, prefix: str, *job: str) -> _Launcher:
    names = (f"{prefix}_{one}" for one in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
    rank, size, local_rank, local_size = names
    return _Launcher(name, rank, size, local_rank, local_size, job)


_TORCHRUN = _Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_OTHERS = (
    _mpi("Open MPI", "OMPI_COMM_WORLD", "PMIX_NAMESPACE"),
    _mpi("MVAPICH", "MV2_COMM_WORLD"),
    _Launcher("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Launcher(
        *("Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
        "",  # follows from SLURM_TASKS_PER_NODE and SLURM_NODEID
        job=("SLURM_JOB_ID", "SLURM_STEP_ID"),
        hosts="SLURM_STEP_NODELIST",
    ),
)


def launcher_env_from(variables: Variables) -> LauncherEnv:
    """Return this process's rank and sizes; contradictory or missing variables are errors."""
    others = [launcher for launcher in _OTHERS if _started_by(launcher, variables)]
    by_torchrun = [name for name in _names(_TORCHRUN) if name in variables]
    if "TORCHELASTIC_RUN_ID" in variables:
        return _read(_TORCHRUN, variables)
    if "RANK" in by_torchrun or "WORLD_SIZE" in by_torchrun:
        if not others and "LOCAL_RANK" not in variables:
            missing = [name for name in _names(_TORCHRUN) if name not in variables]
            raise _incomplete(by_torchrun, missing, NODE_RANKS)
        if others:
            _check_agreement(variables, others[0])
            return _read(others[0], variables)
        return _read(_TORCHRUN, variables)
    return _read(others[0], variables) if others else LauncherEnv()


def _started_by(launcher: _Launcher, variables: Variables) -> bool:
    if launcher.rank not in variables:
        return False
    # A shell inside a Slurm job has its variables, too, but only srun sets a step.
    return launcher.name != "Slurm" or variables.get("SLURM_STEP_ID", "").isdigit()


def _names(launcher: _Launcher) -> tuple[str, ...]:
    names = launcher.rank, launcher.size, launcher.local_rank, launcher.local_size
    return tuple(name for name in names if name)


def _read(launcher: _Launcher, variables: Variables) -> LauncherEnv:
    names = _names(launcher)
    missing = [name for name in names if name not in variables]
    if missing:
        raise _incomplete([name for name in names if name in variables], missing)
    rank, size, local_rank = (_number(variables, name) for name in names[:3])
    local_size = (
        _number(variables, launcher.local_size)
        if launcher.local_size
        else _tasks_here(variables, size)
    )
    env = LauncherEnv(
        launcher.name,
        rank,
        size,
        local_rank,
        local_size,
        job=".".join(variables.get(name, "") for name in launcher.job).strip("."),
        hosts=variables.get(launcher.hosts, ""),
        address=variables.get("MASTER_ADDR", ""),
        port=_number(variables, "MASTER_PORT") if "MASTER_PORT" in variables else 0,
    )
    _check_range(env, names)
    return env


def _number(variables: Variables, name: str) -> int:
    try:
        return int(variables[name])
    except ValueError:
        raise ConfigError(
            f"{name} is {variables[name]!r}, which is not a number",
            where="environment variables",
            fix=LAUNCHER_FIX,
        ) from None


def _tasks_here(variables: Variables, size: int) -> int:
    """Return how many tasks Slurm started on this node: "2(x3),1" is 2, 2, 2, 1."""
    text = variables.get("SLURM_STEP_TASKS_PER_NODE", variables.get("SLURM_TASKS_PER_NODE", ""))
    counts: list[int] = []
    for part in filter(None, text.split(",")):
        count, _, times = part.partition("(x")
        counts += [int(count)] * int(times.rstrip(")") or 1)
    node = int(variables.get("SLURM_NODEID", "0"))
    return counts[node] if node < len(counts) else size


def _check_range(env: LauncherEnv, names: Sequence[str]) -> None:
    valid = 0 <= env.rank < env.size and 0 <= env.local_rank < env.local_size <= env.size
    if not valid:
        raise ConfigError(
            f"process {env.rank} of {env.size}, {env.local_rank} of {env.local_size} "
            "on this machine, is impossible",
            where=f"environment variables {', '.join(names)}",
            fix=LAUNCHER_FIX,
        )


def _check_agreement(variables: Variables, launcher: _Launcher) -> None:
    pairs = ("RANK", launcher.rank), ("WORLD_SIZE", launcher.size)
    for ours, theirs in pairs:
        if ours in variables and variables[ours] != variables.get(theirs):
            raise ConfigError(
                f"{ours} is {variables[ours]}, but {theirs} is {variables.get(theirs)}",
                where="environment variables",
                fix=f"unset {ours} to follow {launcher.name}, or start with torchrun",
            )


def _incomplete(
    present: Sequence[str], missing: Sequence[str], fix: str = LAUNCHER_FIX
) -> ConfigError:
    return ConfigError(
        f"{', '.join(present)} set, but not {', '.join(missing)}",
        where="environment variables",
        fix=fix,
    )


def leader_endpoint(env: LauncherEnv, first_host: Callable[[str], str]) -> tuple[str, int]:
    """Return the address and port of process 0.

    The launcher's own variables count first. Without them, processes of one machine use
    loopback, and those of Slurm the first host of their list, which `first_host` looks up. The
    port follows from the job's id: all processes compute the same, and two jobs seldom clash.
    """
    address = env.address
    if not address and env.on_one_machine:
        address = "127.0.0.1"
    if not address and env.hosts:
        address = first_host(env.hosts)
    if not address:
        raise ConfigError(
            f"{env.launcher} does not say where process 0 is",
            where="environment variables",
            fix="set MASTER_ADDR to the address of its machine, as in "
            "`mpirun -x MASTER_ADDR=10.0.0.1 …`",
        )
    digits = sum(ord(letter) * 31**index for index, letter in enumerate(env.job))
    return address, env.port or FIRST_PORT + digits % PORTS


def first_slurm_host(hosts: str) -> str:
    """Return an address of the first node of a list such as `n[1-3]`.

    The resolver may not know Slurm's node names; then ask Slurm for an address.
    """
    name = _scontrol("show", "hostnames", hosts).split()[0]
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        facts = dict(
            word.split("=", 1)
            for word in _scontrol("show", "node", "-o", name).split()
            if "=" in word
        )
        return facts.get("NodeAddr", name)
    return name


def _scontrol(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["scontrol", *arguments], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RunError(
            f"`scontrol {' '.join(arguments)}` does not answer: {error}",
            where="Slurm",
            fix="set MASTER_ADDR to the address of the machine of process 0",
        ) from error
    return done.stdout


def security_warnings(env: LauncherEnv, variables: Variables) -> tuple[str, ...]:
    """Return what strangers can do to a run that was started like this."""
    foreign = "TORCHELASTIC_RUN_ID" in variables and OUR_AGENT not in variables
    without = not env.on_one_machine and not secret_of(variables)
    return (FOREIGN_TORCHRUN,) * foreign + (NO_SECRET,) * without


def check_nodes(variables: Mapping[str, str]) -> None:
    """Raise an error if torchrun runs on fewer machines than it was asked for."""
    if "TORCHELASTIC_RUN_ID" not in variables:
        return
    wanted = variables.get(NODES) or requested_nodes(_parent_command(), variables)
    there = variables.get("GROUP_WORLD_SIZE", "")
    if wanted.isdecimal() and there.isdecimal() and int(wanted) != int(there):
        raise RunError(
            f"torchrun was asked for {wanted} machines, but continues with {there}",
            where=f"--nnodes={wanted}",
            fix="compare the clocks of the machines: torchrun considers a machine dead if its "
            "clock is off by more than 15 s; to allow fewer machines, pass "
            f"--nnodes=1:{wanted}",
        )


def requested_nodes(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return the fixed number of machines in a torchrun command, or "" if it has none."""
    nodes = variables.get("PET_NNODES", "")
    names = "--nnodes", "--nnode"
    for word, following in zip(command, [*command[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names:
            nodes = value if equals else following
    least, _, most = nodes.partition(":")
    return least if not most or least == most else ""


def _parent_command() -> list[str]:
    try:
        return list(psutil.Process(os.getppid()).cmdline())
    except psutil.Error:
        return []
