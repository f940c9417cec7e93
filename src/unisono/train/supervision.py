"""How the watchmen of a run come to know each other, through the processes they watch.

A process of a run, looked after: watchman, time limits, and `status.json`.

The processes that a launcher started with this one, until the end of the block.
"""

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType

import msgspec

from unisono.comm.bootstrap.join import join
from unisono.comm.bootstrap.network import LOOPBACK_NETWORK
from unisono.comm.bootstrap.store import listen
from unisono.comm.protocol import Comm
from unisono.comm.waiting import Notify, how_contact_was_lost
from unisono.config.settings import Settings
from unisono.errors import PeerLostError, UnisonoError
from unisono.exit_codes import DONE, FAILED, PREEMPTED, RESTARTABLE
from unisono.heartbeat.announce import record_loss
from unisono.heartbeat.messages import GroupMember, SidecarConfig
from unisono.heartbeat.section_limits import NEVER, SectionLimits, Sections
from unisono.heartbeat.worker import SUPERVISED, SidecarHandle, end_with_stacks
from unisono.records.events import AnyEvent, Ended, StepTaken
from unisono.records.layout import RunDirectory
from unisono.records.status import State, Status, write_status
from unisono.units import duration, seconds_of


class _Call(msgspec.Struct, frozen=True):
    """Where rank 0's watchman is to be called, and with which word."""

    address: str
    port: int
    token: str


def agree_on_orders(comm: Comm, settings: Settings) -> SidecarConfig:
    """Return what this process's watchman has to know. All processes call this together."""
    world = comm.world
    me = GroupMember(world.rank, os.uname().nodename, os.getpid(), world.local_rank)
    rows = comm.gather_bytes(msgspec.json.encode(me))
    door, call = -1, b""
    if world.leads:
        on_one_machine = world.local_size == world.size
        listening = listen(LOOPBACK_NETWORK.address if on_one_machine else world.address, 0)
        address, port = listening.getsockname()[:2]
        call = msgspec.json.encode(_Call(address, port, secrets.token_hex(16)))
        door = listening.detach()
    told = msgspec.json.decode(comm.gather_bytes(call)[0], type=_Call)
    return SidecarConfig(
        rank=world.rank,
        members=tuple(msgspec.json.decode(row, type=GroupMember) for row in rows),
        address=told.address,
        port=told.port,
        token=told.token,
        limit=seconds_of(settings.sync.lost_after),
        agent=os.getppid(),
        listen=door,
        run=settings.run,
        then=_what_then(),
    )


def _what_then() -> str:
    """Return what becomes of the run after a loss, as far as this process can know."""
    most = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    done = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    restarts_left = most.isdecimal() and done.isdecimal() and int(done) < int(most)
    if restarts_left or os.environ.get(SUPERVISED):
        return "the processes are started again and go on from the last checkpoint"
    again = "the same command continues from the last checkpoint, if there is one yet"
    return f"the run ends here; {again}"


STATUS_EVERY_SECONDS = 5.0

Section = Callable[[str], AbstractContextManager[None]]


def unsupervised(name: str) -> AbstractContextManager[None]:
    """Count nothing."""
    return nullcontext()


class Supervision:
    """Looks after this process from entering to leaving the `with` block.

    If a rank is lost, or a section takes too long, this process ends with code 76.
    """

    def __init__(self, comm: Comm, settings: Settings) -> None:
        self._world, self._directory = comm.world, RunDirectory(Path(settings.run))
        self._me = GroupMember(comm.world.rank, os.uname().nodename, os.getpid())
        self._step, self._stated = 0, 0.0
        self._watch: SidecarHandle | None = None
        if comm.world.size > 1:
            self._watch = SidecarHandle(agree_on_orders(comm, settings), self._end)
        limits = seconds_by_section(settings.limits)
        self._sections = Sections(limits, self._too_slow, self._tick)
        self.section: Section = self._sections.section

    def __enter__(self) -> "Supervision":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._sections.close()
        if isinstance(error, UnisonoError):
            self.state("failed", error.exit_code, error.what)
            self._leave(error.what)
        elif isinstance(error, RuntimeError) and how_contact_was_lost(error):
            self._raise_lost(error)
        elif isinstance(error, Exception):
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            self.state("failed", FAILED, words)
            if self._watch is not None:
                self._watch.last_words(f"ended by {words}")
        else:
            self._leave("interrupted" if error is not None else "")

    def saw(self, event: AnyEvent) -> None:
        """Note what has happened in the run."""
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
        """Write down how it stands, if this process leads and the directory is the run's."""
        self._stated = time.monotonic()
        if not self._world.leads or not self._directory.config.is_file():
            return
        status = Status(
            state=state,
            step=self._step,
            exit_code=exit_code,
            message=message,
            host=self._me.host,
            pid=self._me.pid,
        )
        with suppress(OSError):  # a full disk: the checkpoints will say so
            write_status(self._directory, status)

    def _leave(self, trouble: str = "") -> None:
        if self._watch is not None:
            self._watch.leave(trouble)

    def _raise_lost(self, error: RuntimeError) -> None:
        how = how_contact_was_lost(error)
        if self._watch is not None:
            self._watch.wait_for_verdict()
        self.state("lost", RESTARTABLE, how)
        self._leave(f"lost contact: {how}")
        raise PeerLostError(
            f"process {self._me.rank} lost contact with another process: {how}",
            fix="see which one ended and why; the same command continues the run",
        ) from error

    def _tick(self, step: int, section: str) -> None:
        if self._watch is not None:
            self._watch.note(step, section)

    def _end(self, words: str) -> None:
        self.state("lost", RESTARTABLE, words)
        end_with_stacks(str(self._directory.path), self._me.rank, words)

    def _too_slow(self, section: str, limit: float) -> None:
        words = f"section `{section}` took longer than {duration(limit)}"
        stacks = self._directory.stacks(self._me.rank)
        with suppress(OSError):
            # The main thread hangs and cannot speak.
            sys.stderr.write(f"lost: {self._me}: too slow ({words}); see {stacks}\n")
            sys.stderr.flush()
            record_loss(self._directory, self._me.rank, self._me, "too slow", words, self._step)
        if self._watch is not None:
            self._watch.last_words(words)
        self._end(words)


def seconds_by_section(limits: SectionLimits) -> dict[str, float]:
    """Return the limits in seconds; those that are not set are never reached."""
    texts = {name: getattr(limits, name) for name in SectionLimits.__struct_fields__}
    return {name: seconds_of(text) if text else NEVER for name, text in texts.items()}


@contextmanager
def joined(settings: Settings, timeout_seconds: float, tell: Notify) -> Iterator[Comm]:
    """Join the others, or stand alone; `tell` is told what the start waits for.

    Losing contact with one of them is an error that says so.
    """
    comm = join(
        settings.device,
        timeout_seconds,
        start_seconds=seconds_of(settings.sync.start_timeout),
        interface=settings.sync.interface,
        notify=tell,
    )
    try:
        yield comm
    except RuntimeError as error:
        how = how_contact_was_lost(error)
        if not how:
            raise
        raise PeerLostError(
            f"process {comm.world.rank} lost contact with another: {how}"
        ) from error
    finally:
        comm.close()
