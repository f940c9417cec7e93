"""The events of a machine's sampler (`monitor/rank-0000.jsonl`), written and read back.

Counters only rise, as the kernel keeps them, so two samples, however far apart, say what
happened between them. Shares are of the time since the previous sample. A machine leaves out
what it cannot measure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from unisono.jsonl import read_lines
from unisono.records.events import Event, Started, Warned
from unisono.records.layout import RunDirectory


class NetworkInterface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An interface as it is set up: 0 Mbit/s where the kernel does not know its rate."""

    up: bool = True
    mbit_per_s: int = 0
    addresses: list[str] = []


class Machine(Event, frozen=True, kw_only=True, tag="machine"):
    """A sampler started on a machine, for the processes `pids` of the run.

    `rank` is the first of them. `gpus` are the names of its devices, `used` the numbers of
    those in the samples that the run computes on; where it is empty, `cuda:N` of the processes
    are.
    """

    rank: int
    host: str
    pids: list[int]
    cores: int
    memory: int
    every: float
    interfaces: dict[str, NetworkInterface] = {}
    gpus: list[str] = []
    used: list[int] = []


class Traffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an interface has carried since the machine was started; bytes and packets."""

    received: int = 0
    sent: int = 0
    errors: int = 0
    drops: int = 0


class Peer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the run's processes here have exchanged with one address over TCP.

    `busy` are the seconds for which the connection that sent most, `busiest_sent` bytes, had
    something to send that the other side was ready to take; `rate` is what the kernel thinks
    that it can carry, in bytes a second; `rtt` is the shortest way there and back that was
    seen, in seconds; `retransmitted` counts packets.
    """

    sent: int = 0
    received: int = 0
    busy: float = 0.0
    busiest_sent: int = 0
    rate: float = 0.0
    retransmitted: int = 0
    rtt: float = 0.0


class Gpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU at the moment of the sample. `throttled` says what holds its clock down.

    `own_memory` is what the processes of the run have of its memory, `others` how many further
    processes compute on it; None where the driver does not say, or not whose they are.
    """

    index: int
    utilisation: float | None = None
    watts: float | None = None
    limit_watts: float | None = None
    mhz: int | None = None
    most_mhz: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    throttled: list[str] = []
    own_memory: int | None = None
    others: int | None = None


class Sampled(Event, frozen=True, kw_only=True, tag="sampled", omit_defaults=True):
    """One look at a machine.

    `seconds` have passed since the look before; 0 is the first. `cores` are the shares for
    which each core was busy, `steal` the share of all cores' time that other guests of the
    same host had. Counters: `interfaces`, `peers` (the run's own connections), `disk_read`,
    `disk_written`, `own_cpu` (seconds of the run's processes on this machine), `held_back`
    (seconds for which a CPU quota did), and `sampler_cpu` (what all this costs). `own_read` and
    `own_written` are what of the disks' bytes was the run's; None where the system, or an older
    version, does not say.
    `memory_limit` is that of the container if there is one.
    """

    seconds: float = 0.0
    interfaces: dict[str, Traffic] = {}
    peers: dict[str, Peer] = {}
    cores: list[float] = []
    steal: float = 0.0
    disk_wait: float = 0.0
    memory_used: int = 0
    memory_limit: int = 0
    disk_read: int = 0
    disk_written: int = 0
    own_cpu: float = 0.0
    own_memory: int = 0
    held_back: float = 0.0
    sampler_cpu: float = 0.0
    own_read: int | None = None
    own_written: int | None = None
    gpus: list[Gpu] = []


SamplerEvent = Machine | Sampled | Warned

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(SamplerEvent)


def to_line(event: SamplerEvent) -> bytes:
    """Return `event` as a line of JSON, without the line break."""
    return _encoder.encode(event)


def from_lines(lines: Iterable[bytes]) -> Iterator[SamplerEvent]:
    """Yield the events in `lines`, passing over what is torn or of a newer version."""
    for line in lines:
        try:
            yield _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


@dataclass(frozen=True)
class MachineLog:
    """The samples of one machine, in the order of time; a start of the run is an entry of
    `machines`.
    """

    machines: tuple[Machine, ...] = ()
    samples: tuple[Sampled, ...] = ()
    warnings: tuple[Warned, ...] = ()

    @property
    def host(self) -> str:
        """Return the name of the machine, "" if it did not say."""
        return self.machines[-1].host if self.machines else ""

    @property
    def of_last_start(self) -> tuple[Sampled, ...]:
        """Return the samples since the last start: counters of processes begin anew there."""
        began = self.machines[-1].time if self.machines else 0.0
        return tuple(sample for sample in self.samples if sample.time >= began)


def read_machines(directory: RunDirectory) -> dict[int, MachineLog]:
    """Return what was sampled on each machine, by the rank of its first process."""
    return {
        int(file.stem.removeprefix("rank-")): _read(list(from_lines(read_lines(file))))
        for file in sorted((directory.path / "monitor").glob("rank-*.jsonl"))
    }


def _read(events: list[Machine | Sampled | Warned]) -> MachineLog:
    return MachineLog(
        machines=tuple(event for event in events if isinstance(event, Machine)),
        samples=tuple(event for event in events if isinstance(event, Sampled)),
        warnings=tuple(event for event in events if isinstance(event, Warned)),
    )


def latest_starts(starts: Iterable[Started]) -> tuple[Started, ...]:
    """Return each rank's latest start, in order of rank, as far as the last world goes."""
    latest = {start.rank: start for start in starts}
    size = latest[0].size if 0 in latest else len(latest)
    return tuple(latest[rank] for rank in sorted(latest) if rank < size)


def shared_names(starts: Iterable[Started]) -> set[str]:
    """Return the names that several machines have: one has each local rank once."""
    places = Counter((start.host, start.local_rank) for start in latest_starts(starts))
    return {host for (host, _), times in places.items() if times > 1}


def told_apart(starts: Iterable[Started]) -> tuple[Started, ...]:
    """Return the starts; machines that are called the same are known by their address, too."""
    starts = tuple(starts)
    shared = shared_names(starts)
    return tuple(
        msgspec.structs.replace(start, host=f"{start.host} ({start.address})")
        if start.host in shared and start.address
        else start
        for start in starts
    )
