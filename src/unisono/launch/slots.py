"""How many processes a machine gets: one for each GPU, or a few on CPUs. No torch here."""

import os
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from unisono.errors import ConfigError
from unisono.launch.plan import Host
from unisono.nvidia import Driver, read_driver

WORKERS_ON_CPUS = 2
SLURM_GPU_OPTIONS = ("gpus-per-node", "gres")
KUBERNETES_GPUS = "nvidia.com/gpu"


class MachineGpus(msgspec.Struct, frozen=True):
    """The GPUs of a machine that a run may use: name, number of processes, driver.

    None where the settings say `device = "cpu"` or the machine has no GPU.
    """

    name: str = ""
    processes: int = 0
    driver: str = ""

    def __str__(self) -> str:
        return f"{self.processes} × {self.name}" if self.processes else "no GPU"


def gpus_for(device: str, driver: Driver, variables: Mapping[str, str]) -> MachineGpus:
    """Return the GPUs that a run with the setting `device` uses on this machine."""
    if device == "cpu":
        return MachineGpus()
    visible = driver.visible(variables)
    name = visible[0].name if visible else ""
    return MachineGpus(name, driver.processes(variables), driver.version if visible else "")


def workers_here(given: int, device: str) -> int:
    """Return how many processes to start on this machine; `given` is 0 if nobody said."""
    gpus = gpus_for(device, read_driver(), os.environ)
    check_workers(given, gpus, where="--workers")
    return given or gpus.processes or WORKERS_ON_CPUS


def check_workers(given: int, gpus: MachineGpus, *, where: str) -> None:
    """Raise a ConfigError if there are more processes than GPUs."""
    if gpus.processes and given > gpus.processes:
        raise ConfigError(too_many(given, gpus), where=where, fix=fewer_fix(gpus))


def too_many(given: int, gpus: MachineGpus) -> str:
    """Return what is wrong with `given` processes."""
    return f"{given} processes, but {gpus}: each process needs a GPU of its own"


def fewer_fix(gpus: MachineGpus) -> str:
    """Return what to do about too many processes."""
    return f'start {gpus.processes} or fewer, or set `device = "cpu"`'


def fill_slots(hosts: Iterable[Host], gpus: Sequence[MachineGpus]) -> tuple[Host, ...]:
    """Return the hosts; those without a number get a process for each GPU, or two."""
    return tuple(
        host if host.slots else Host(host.name, found.processes or WORKERS_ON_CPUS)
        for host, found in zip(hosts, gpus, strict=True)
    )


def requested_workers(given: int, resources: Mapping[str, str]) -> int:
    """Return the processes on each machine of a job that asks its cluster for `resources`."""
    texts = [resources.get(name, "") for name in (*SLURM_GPU_OPTIONS, KUBERNETES_GPUS)]
    counts = [int(last) for text in texts if (last := text.rpartition(":")[2]).isdecimal()]
    # `--gres` may ask for other things than GPUs.
    gres = resources.get("gres", "gpu")
    gpus = MachineGpus("GPU", counts[0] if counts and gres.startswith("gpu") else 0)
    check_workers(given, gpus, where="--workers")
    return given or gpus.processes or WORKERS_ON_CPUS
