"""What stands around a training process: its group, its supervision, its machine's sampler.

A sidecar process exchanges heartbeats with those of the other ranks, a thread enforces the
time limits of sections, `status.json` says how the run is doing, and one process of each
machine starts the sampler of the monitor.
"""

import hmac
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import msgspec
import torch

from unisono.comm.bootstrap.join import join
from unisono.comm.bootstrap.nccl import FLIGHT_RECORD
from unisono.comm.bootstrap.store import listen
from unisono.comm.group import patience
from unisono.comm.protocol import Comm, World
from unisono.comm.waiting import Notify, how_contact_was_lost, what_the_gpu_reports
from unisono.config.settings import Settings
from unisono.cost_model.exchange import machines_of
from unisono.errors import PeerLostError, RunError, UnisonoError, explain
from unisono.exit_codes import DONE, FAILED, PREEMPTED, RESTARTABLE
from unisono.heartbeat.announce import record_loss
from unisono.heartbeat.messages import GroupMember, SidecarConfig
from unisono.heartbeat.section_limits import NO_LIMIT, SectionLimits, Sections
from unisono.heartbeat.worker import SUPERVISED, SidecarHandle, end_with_stacks
from unisono.monitor.worker import SamplerConfig, Sampling
from unisono.nvidia import GPU_FAULT_FIX, recent_xids
from unisono.records.events import AnyEvent, Ended, StepTaken
from unisono.records.layout import RunDirectory
from unisono.records.status import State, Status, write_status
from unisono.secure.private_socket import listen_private
from unisono.secure.secret import secret_of
from unisono.units import duration, seconds_of

STATUS_EVERY_SECONDS = 5.0
Section = Callable[[str], AbstractContextManager[None]]
WAITED_FOR = ("save", "evaluation")  # sections in which one process works and others wait


@contextmanager
def process_group(settings: Settings, timeout_seconds: float, notify: Notify) -> Iterator[Comm]:
    """Join the processes that a launcher started with this one, or be a group of one.

    `notify` is called with what the start is waiting for. Losing contact is a PeerLostError.
    """
    comm = join(
        settings.device,
        timeout_seconds,
        start_seconds=seconds_of(settings.sync.start_timeout),
        interface=settings.sync.interface,
        notify=notify,
    )
    try:
        yield comm
    except RuntimeError as error:
        how, fault = how_contact_was_lost(error), what_the_gpu_reports(error)
        if fault:
            raise gpu_failure(comm.world, fault) from error
        if not how:
            raise
        raise PeerLostError(
            f"process {comm.world.rank} lost contact with another: {how}"
        ) from error
    finally:
        comm.close()


def gpu_failure(world: World, fault: str) -> RunError:
    """Return the error of a process whose GPU failed, with what the driver reported."""
    seen = "; ".join(recent_xids()[-3:])
    return RunError(
        f"the GPU of process {world.rank} failed: {fault}" + (f" ({seen})" if seen else ""),
        where=f"{world.device} on {os.uname().nodename}",
        fix=f"{GPU_FAULT_FIX}; the same command continues from the last checkpoint",
    )


class Supervision:
    """Supervises this process from entering to leaving the `with` block.

    If a rank is lost, or a section takes too long, this process ends with code 76.
    """

    def __init__(self, comm: Comm, settings: Settings) -> None:
        self._world, self._directory = comm.world, RunDirectory(Path(settings.run))
        self._me = GroupMember(comm.world.rank, os.uname().nodename, os.getpid())
        self._step, self._stated, self._held = 0, 0.0, -1
        self._sidecar: SidecarHandle | None = None
        if comm.world.size > 1:
            self._sidecar = SidecarHandle(_sidecar_config(comm, settings), self._end)
        limits = _seconds_by_section(settings.limits)
        self._sections = Sections(limits, self._too_slow, self._tick)
        self._comm, self._usually = comm, seconds_of(settings.sync.timeout)

    def __enter__(self) -> "Supervision":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._sections.close()
        told = error if isinstance(error, UnisonoError) else explain(error)
        if told is not None:
            self.state("failed", told.exit_code, told.what)
            self._leave(told.what)
        elif isinstance(error, RuntimeError) and how_contact_was_lost(error):
            self._raise_lost(error)
        elif isinstance(error, Exception):
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            self.state("failed", FAILED, words)
            if self._sidecar is not None:
                self._sidecar.last_words(f"ended by {words}")
        else:
            self._leave("interrupted" if error is not None else "")

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Limit the time of the block, in which processes may wait as long for each other."""
        limit = self._sections.limit_of(name) if name in WAITED_FOR else 0.0
        with self._sections.section(name), patience(self._comm, limit, self._usually):
            yield

    def saw(self, event: AnyEvent) -> None:
        """Take note of `event`, and write the status if it is time to."""
        if isinstance(event, StepTaken):
            self._step = self._sections.step = event.step
        if isinstance(event, Ended):
            stopped = event.reason == "signal"
            words = f"ended at step {event.step}: {event.reason}"
            self.state(
                "preempted" if stopped else "done", PREEMPTED if stopped else DONE, words
            )
        elif time.monotonic() - self._stated > STATUS_EVERY_SECONDS:
            self.state("running")

    def state(self, state: State, exit_code: int = -1, message: str = "") -> None:
        """Write `status.json`, if this process leads and the directory belongs to the run."""
        self._stated = time.monotonic()
        is_ours = self._held >= 0 or self._directory.config.is_file()
        if not self._world.leads or not is_ours:
            return
        status = Status(
            state=state,
            step=self._step,
            exit_code=exit_code,
            message=message,
            host=self._me.host,
            pid=self._me.pid,
        )
        with suppress(OSError):  # if the disk is full, the checkpoints report it
            write_status(self._held_directory(), status)

    def _held_directory(self) -> RunDirectory:
        """Return the run directory, wherever somebody has moved it since the first call."""
        if self._held < 0:
            self._held = os.open(self._directory.path, os.O_RDONLY | os.O_DIRECTORY)
        moved = Path(f"/proc/self/fd/{self._held}")
        return RunDirectory(moved) if moved.is_dir() else self._directory

    def _leave(self, trouble: str = "") -> None:
        if self._sidecar is not None:
            self._sidecar.leave(trouble)

    def _raise_lost(self, error: RuntimeError) -> None:
        how = how_contact_was_lost(error)
        if self._sidecar is not None:
            self._sidecar.wait_for_verdict()
        self.state("lost", RESTARTABLE, how)
        self._leave(f"lost contact: {how}")
        raise PeerLostError(
            f"process {self._me.rank} lost contact with another process: {how}",
            fix="see which one ended and why; the same command continues the run",
        ) from error

    def _tick(self, step: int, section: str) -> None:
        if self._sidecar is not None:
            self._sidecar.note(step, section)

    def _end(self, words: str) -> None:
        self.state("lost", RESTARTABLE, words)
        end_with_stacks(str(self._directory.path), self._me.rank, words)

    def _too_slow(self, section: str, limit: float) -> None:
        words = f"section `{section}` took longer than {duration(limit)}"
        stacks = self._directory.stacks(self._me.rank)
        with suppress(OSError):
            # The main thread hangs and cannot report this.
            sys.stderr.write(f"lost: {self._me}: too slow ({words}); see {stacks}\n")
            sys.stderr.flush()
            record_loss(self._directory, self._me.rank, self._me, "too slow", words, self._step)
        if self._sidecar is not None:
            self._sidecar.last_words(words)
        self._end(words)


class Unsupervised:
    """Stands in for `Supervision` and does nothing: no sidecar, no limits, no status."""

    def section(self, name: str) -> AbstractContextManager[None]:
        """Count nothing."""
        return nullcontext()

    def saw(self, event: AnyEvent) -> None:
        """Ignore `event`."""

    def state(self, state: State) -> None:
        """Write nothing."""


@contextmanager
def supervised_group(
    settings: Settings, notify: Notify
) -> Iterator[tuple[Comm, Supervision | Unsupervised]]:
    """Join the process group, and supervise this process within the block."""
    timeout = seconds_of(settings.sync.timeout)
    os.environ.setdefault(FLIGHT_RECORD, f"{settings.run}/nccl_trace_rank_")
    with (
        process_group(settings, timeout, notify) as comm,
        Supervision(comm, settings) as supervision,
    ):
        yield comm, supervision


class _SidecarAddress(msgspec.Struct, frozen=True):
    """Where the sidecar of rank 0 listens, and a token for this start of the run.

    The secret of the heartbeats follows from that of the run and this token.
    """

    address: str
    port: int
    token: str


def _sidecar_config(comm: Comm, settings: Settings) -> SidecarConfig:
    """Return what this process's sidecar has to know. All processes call this together."""
    world = comm.world
    me = GroupMember(world.rank, os.uname().nodename, os.getpid(), world.local_rank)
    rows = comm.gather_bytes(msgspec.json.encode(me))
    listening_fd, mine = -1, b""
    if world.leads:
        if world.local_size == world.size:
            listening, address = listen_private(f"heartbeat-{os.getpid()}")
            port = 0
        else:
            listening = listen(world.address, 0)
            address, port = listening.getsockname()[:2]
        mine = msgspec.json.encode(_SidecarAddress(address, port, secrets.token_hex(16)))
        listening_fd = listening.detach()
    server = msgspec.json.decode(comm.gather_bytes(mine)[0], type=_SidecarAddress)
    return SidecarConfig(
        rank=world.rank,
        members=tuple(msgspec.json.decode(row, type=GroupMember) for row in rows),
        address=server.address,
        port=server.port,
        token=hmac.digest(secret_of(os.environ), server.token.encode(), "sha256").hex(),
        limit=seconds_of(settings.sync.lost_after),
        agent=os.getppid(),
        listen=listening_fd,
        run=settings.run,
        then=_after_a_loss(),
    )


def _after_a_loss() -> str:
    """Return what happens to the run after a loss, as far as this process can know."""
    most = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    done = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    restarts_left = most.isdecimal() and done.isdecimal() and int(done) < int(most)
    if restarts_left or os.environ.get(SUPERVISED):
        return "the processes are started again and go on from the last checkpoint"
    again = "the same command continues from the last checkpoint, if there is one yet"
    return f"the run ends here; {again}"


def _seconds_by_section(limits: SectionLimits) -> dict[str, float]:
    """Return the limits in seconds; a section without a limit never reaches it."""
    texts = {name: getattr(limits, name) for name in SectionLimits.__struct_fields__}
    return {name: seconds_of(text) if text else NO_LIMIT for name, text in texts.items()}


class _SampledProcess(msgspec.Struct, frozen=True):
    """A process of the run, as the sampler of its machine has to know it."""

    host: str
    pid: int
    local_rank: int
    gpu: str = ""


def sampling(comm: Comm, settings: Settings) -> Sampling:
    """Return the sampling of this machine. All processes call this together."""
    if not settings.monitor.on:
        return Sampling(None)
    device = comm.world.device
    gpu = gpu_uuid(device) or gpu_name(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
    me = _SampledProcess(os.uname().nodename, os.getpid(), comm.world.local_rank, gpu)
    rows = comm.gather_bytes(msgspec.json.encode(me))
    processes = [msgspec.json.decode(row, type=_SampledProcess) for row in rows]
    if comm.world.local_rank != 0:
        return Sampling(None)
    machines = machines_of([p.host for p in processes], [p.local_rank for p in processes])
    mine = next(ranks for ranks in machines if comm.world.rank in ranks)
    pids = tuple(processes[rank].pid for rank in mine)
    named = [processes[rank].gpu for rank in mine]
    gpus = tuple(dict.fromkeys(named)) if all(named) else ()
    every = seconds_of(settings.monitor.every)
    return Sampling(
        SamplerConfig(run=settings.run, rank=comm.world.rank, pids=pids, every=every, gpus=gpus)
    )


def gpu_uuid(device: str) -> str:
    """Return the name by which driver and torch mean the same GPU; "" if it has none.

    CUDA numbers GPUs in another order than NVML, and under Slurm each process begins at 0.
    """
    if not device.startswith("cuda"):
        return ""
    uuid = str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
    return uuid if not uuid or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def gpu_name(device: str, visible: str | None) -> str:
    """Return what `CUDA_VISIBLE_DEVICES` calls the GPU of a process; "" if it has none.

    Each process may see other GPUs, or only its own, as under Slurm.
    """
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return ""
    index = int(number) if number.isdecimal() else 0
    if visible is None:
        return str(index)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return names[index] if index < len(names) else ""
