"""On which device a process computes, and whether torch, driver and GPU go together.

A GPU that torch cannot use is an error, never a reason to train on the CPU silently: to train
on the CPU of a machine with GPUs, set `device = "cpu"`.
"""

import os
import shutil
import socket
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from unisono.comm.bootstrap.seats import DeviceSeat
from unisono.comm.protocol import World
from unisono.errors import ConfigError, RunError
from unisono.nvidia import (
    DRIVER_FIX,
    GPU_FAULT_FIX,
    VISIBLE,
    Capability,
    Driver,
    read_driver,
)
from unisono.units import amount_of_bytes

CPU_FIX = '`device = "cpu"` trains on the CPU'
# The oldest branch of the driver that runs programs of a CUDA version.
LEAST_DRIVER = {11: 450, 12: 525, 13: 580}
OLD_INDEX = "https://download.pytorch.org/whl/cu126"
FIRST_IN_CUDA_13, LAST_IN_CU126 = (7, 5), (9, 0)
LAST_WITH_CU126 = (2, 14)  # of torch: later ones have no wheels for CUDA 12
SHARED_MEMORY = Path("/dev/shm")
LEAST_SHARED_BYTES = 32 * 2**20  # that NCCL may take for each process of a machine


@dataclass(frozen=True)
class TorchCuda:
    """What torch says: its version, the CUDA it was built for, and the devices it can open.

    `cuda` is "" for a build without CUDA; `architectures` are those its kernels run on.
    """

    version: str = ""
    cuda: str = ""
    architectures: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()


def ask_torch() -> TorchCuda:
    """Ask torch; it warns of an old driver, about which we say more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return TorchCuda(
            version=str(torch.__version__),
            cuda=torch.version.cuda or "",
            architectures=tuple(torch.cuda.get_arch_list()),
            names=tuple(torch.cuda.get_device_name(number) for number in range(count)),
            capabilities=tuple(torch.cuda.get_device_capability(n) for n in range(count)),
        )


def pick_device(wanted: str) -> str:
    """Return "cuda" or "cpu" for "auto", "cpu" or "cuda"; an unusable GPU is an error."""
    if wanted == "cpu":
        return "cpu"
    return device_for(wanted, ask_torch(), read_driver(), os.environ)


def device_for(
    wanted: str, build: TorchCuda, driver: Driver, variables: Mapping[str, str]
) -> str:
    """Return "cuda" or "cpu", or raise a ConfigError with what to install or to set."""
    if build.names:
        _check_kernels(build, driver)
        _check_all_seen(build, driver, variables)
        return "cuda"
    trouble, fix = _why_unseen(build, driver, variables)
    if trouble:
        raise ConfigError(
            f"{trouble} on {socket.gethostname()}", where="device", fix=f"{fix}; {CPU_FIX}"
        )
    if wanted == "cuda":
        raise ConfigError(
            "there is no CUDA device here", where="device", fix='set `device = "auto"` or "cpu"'
        )
    return "cpu"


def _why_unseen(
    build: TorchCuda, driver: Driver, variables: Mapping[str, str]
) -> tuple[str, str]:
    """Return why torch sees none of the GPUs that are there, and what to do; or ""."""
    if driver.trouble:
        return driver.trouble, DRIVER_FIX
    if not driver.gpus:
        return "", ""
    there = f"{len(driver.gpus)} × {driver.gpus[0].name}"
    faults = [f"{gpu.name}: {gpu.fault}" for gpu in driver.gpus if gpu.fault]
    if faults:
        return f"a GPU is broken ({'; '.join(faults)})", GPU_FAULT_FIX
    capabilities = [gpu.capability for gpu in driver.gpus]
    if not build.cuda:
        install = install_command(build.version, capabilities, driver)
        return f"torch {build.version} is built without CUDA, but there is {there}", install
    if VISIBLE in variables and not driver.visible(variables):
        return (
            f"{VISIBLE}={variables[VISIBLE]!r} hides {there}",
            f"unset {VISIBLE}, or name GPUs that exist",
        )
    needed = LEAST_DRIVER.get(int(build.cuda.partition(".")[0]), 0)
    if driver.branch < needed:
        newest = ".".join(map(str, driver.cuda))
        return (
            f"driver {driver.version} runs CUDA up to {newest}, but torch {build.version} "
            f"needs CUDA {build.cuda}, hence driver {needed} or newer",
            f"update the driver, or {install_command(build.version, capabilities, driver)}",
        )
    return (
        f"the driver ({driver.version}) knows {there}, but torch {build.version} for CUDA "
        f"{build.cuda} cannot open any",
        '`python -c "import torch; torch.zeros(1).cuda()"` says why',
    )


def _check_kernels(build: TorchCuda, driver: Driver) -> None:
    """Raise a ConfigError if torch's wheel has no kernels for a GPU."""
    for name, capability in zip(build.names, build.capabilities, strict=True):
        if not runs_on(build.architectures, capability):
            major, minor = capability
            raise ConfigError(
                f"torch {build.version} (CUDA {build.cuda}) has no kernels for {name}, which "
                f"is sm_{major}{minor}; it has {' '.join(build.architectures)}",
                where=f"device, on {socket.gethostname()}",
                fix=install_command(build.version, build.capabilities, driver),
            )


def runs_on(architectures: Sequence[str], capability: Capability) -> bool:
    """Return whether kernels for `architectures` run on a GPU.

    Kernels for sm_80 run on 8.0, 8.6 and 8.9, but not on 9.0; `compute_90` is translated for
    all later ones when a program starts; sm_90a runs on 9.0 alone.
    """
    for name in architectures:
        kind, _, number = name.partition("_")
        digits = number.rstrip("abcdefghijklmnopqrstuvwxyz")
        if not digits.isdecimal():
            continue
        built = int(digits[:-1] or 0), int(digits[-1])
        only = number != digits
        if built == capability or (
            not only
            and built <= capability
            and (kind == "compute" or built[0] == capability[0])
        ):
            return True
    return False


def install_command(version: str, capabilities: Sequence[Capability], driver: Driver) -> str:
    """Return how to install a torch that runs on GPUs of these `capabilities`."""
    known = [one for one in capabilities if one != (0, 0)] or [FIRST_IN_CUDA_13]
    release = version.partition("+")[0]
    numbers = tuple(int(part) for part in release.split(".")[:2] if part.isdecimal())
    old_ok = max(known) <= LAST_IN_CU126
    if min(known) < FIRST_IN_CUDA_13 and not old_ok:
        return "use cards of one age: no wheel of torch has kernels for all of these"
    needs_old = min(known) < FIRST_IN_CUDA_13 or 0 < driver.branch < LEAST_DRIVER[13]
    if needs_old and not old_ok:
        return f"update the driver to {LEAST_DRIVER[13]} or newer"
    if needs_old:
        wanted = f"torch=={release}" if numbers <= LAST_WITH_CU126 else "torch<2.15"
        return f"pip install --force-reinstall '{wanted}' --index-url {OLD_INDEX}"
    return f"pip install --force-reinstall 'torch=={release}'"


def _check_all_seen(build: TorchCuda, driver: Driver, variables: Mapping[str, str]) -> None:
    """Raise a ConfigError if torch sees fewer GPUs than the driver and the user name."""
    faults = [f"{gpu.name}: {gpu.fault}" for gpu in driver.gpus if gpu.fault]
    if faults:
        raise ConfigError(
            f"a GPU is broken ({'; '.join(faults)})",
            where=f"device, on {socket.gethostname()}",
            fix=f"{GPU_FAULT_FIX}; or leave it out with {VISIBLE}",
        )
    named = [part.strip() for part in variables.get(VISIBLE, "").split(",") if part.strip()]
    mig = any(gpu.mig for gpu in driver.gpus)
    expected = len(named) if VISIBLE in variables else len(driver.gpus)
    if driver.gpus and not mig and len(build.names) < expected:
        of = f"{VISIBLE}={variables[VISIBLE]!r}" if VISIBLE in variables else "the driver"
        raise ConfigError(
            f"{of} names {expected} GPUs, but torch can open only {len(build.names)}",
            where=f"device, on {socket.gethostname()}",
            fix=f"name GPUs that exist in {VISIBLE}, as `nvidia-smi -L` lists them",
        )


def check_process_count(world: World, driver: Driver) -> None:
    """Raise a ConfigError if the processes of this machine have no GPU each."""
    if not world.device.startswith("cuda") or world.local_size == 1:
        return
    if any(gpu.mig for gpu in driver.visible(os.environ)):
        raise ConfigError(
            f"{world.local_size} processes cannot train together on slices of a GPU (MIG): "
            "slices cannot exchange data",
            where=socket.gethostname(),
            fix="start one process (`--workers 1`), or turn MIG off: `nvidia-smi -mig 0`",
        )
    count = torch.cuda.device_count()
    # A process that sees one GPU may be alone with it, as under Slurm: the roll call knows.
    if 1 < count < world.local_size:
        raise ConfigError(
            f"{world.local_size} processes for {count} GPUs",
            where=socket.gethostname(),
            fix=f"start {count} processes or fewer: `--workers {count}`",
        )


def check_shared_memory(world: World, place: Path = SHARED_MEMORY) -> None:
    """Raise a ConfigError if NCCL has too little shared memory for the processes here."""
    if not world.device.startswith("cuda") or world.local_size == 1 or not place.is_dir():
        return
    free, needed = shutil.disk_usage(place).free, LEAST_SHARED_BYTES * world.local_size
    if free < needed:
        raise ConfigError(
            f"{place} has {amount_of_bytes(free)} free; NCCL needs {amount_of_bytes(needed)} "
            f"for {world.local_size} processes",
            where=socket.gethostname(),
            fix="start the container with `--shm-size=1g` (or `--ipc=host`), or clear /dev/shm",
        )


def use_device(world: World) -> None:
    """Let this process compute on its device: its GPU, or its share of the cores."""
    if not world.device.startswith("cuda"):
        cores = len(os.sched_getaffinity(0))
        torch.set_num_threads(max(1, cores // world.local_size))
        return
    try:
        torch.cuda.set_device(world.device)
    except RuntimeError as error:
        words = str(error).partition("\n")[0]
        raise RunError(
            f"process {world.rank} cannot use {world.device}: {words}",
            where=socket.gethostname(),
            fix="see with `nvidia-smi` whether another program holds the GPU, and whether its "
            "compute mode is `Default`",
        ) from error


def seat_of(world: World, driver: Driver) -> DeviceSeat:
    """Return what the others have to know about the device of this process."""
    if not world.device.startswith("cuda"):
        return DeviceSeat()
    facts = torch.cuda.get_device_properties(world.device)
    nccl = torch.cuda.nccl.version()
    return DeviceSeat(
        kind="cuda",
        name=facts.name,
        capability=(facts.major, facts.minor),
        uuid=str(getattr(facts, "uuid", "")),
        nccl=".".join(map(str, nccl)),
        driver=driver.version,
    )
