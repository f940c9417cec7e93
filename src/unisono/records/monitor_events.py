"""The events of a machine's sampler (`monitor/rank-0000.jsonl`), written and read back.

Counters only rise, as the kernel keeps them, so two samples, however far apart, say what
happened between them. Shares are of the time since the previous sample. A machine leaves out
what it cannot measure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from unisono.records.damage import DamageLog
from unisono.records.events import Event, Number, Seconds, Started, Warned, Whole, note_damage
from unisono.records.layout import RunDirectory, numbered_files
from unisono.small_files import PARSER_ERRORS


class NetworkInterface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The configuration of an interface: 0 Mbit/s where the kernel does not know its rate."""

    up: bool = True
    mbit_per_s: Whole = 0
    addresses: list[str] = []


class Machine(Event, frozen=True, kw_only=True, tag="machine"):
    """A sampler started on a machine, for the processes `pids` of the run.

    `rank` is the first of them. `gpus` are the names of its devices, `used` the indices of
    those that the run computes on; if that is empty, take `cuda:N` of the processes.
    """

    rank: Whole
    host: str
    pids: list[Whole]
    cores: Whole
    memory: Whole
    every: Seconds
    interfaces: dict[str, NetworkInterface] = {}
    gpus: list[str] = []
    used: list[Whole] = []


class Traffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an interface has carried since the machine was started; bytes and packets."""

    received: Whole = 0
    sent: Whole = 0
    errors: Whole = 0
    drops: Whole = 0


class Peer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the run's processes here have exchanged with one address over TCP.

    For the connection that sent most, `busiest_sent` bytes, `busy` counts the seconds in which
    it had data to send and the receiver was ready; `rate` is the kernel's estimate of what it
    can carry, in bytes a second; `rtt` is the shortest round trip, in seconds; `retransmitted`
    counts packets.
    """

    sent: Whole = 0
    received: Whole = 0
    busy: Seconds = 0.0
    busiest_sent: Whole = 0
    rate: Number = 0.0
    retransmitted: Whole = 0
    rtt: Seconds = 0.0


class Gpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU at the moment of the sample. `throttled` says what holds its clock down.

    `own_memory` is the memory of the run's processes, `others` the number of other processes
    that compute on it; None if the driver does not say.
    """

    index: Whole
    utilisation: Number | None = None
    watts: Number | None = None
    limit_watts: Number | None = None
    mhz: Whole | None = None
    most_mhz: Whole | None = None
    memory_used: Whole | None = None
    memory_total: Whole | None = None
    throttled: list[str] = []
    own_memory: Whole | None = None
    others: Whole | None = None
    ecc_errors: Whole | None = None
    nvlink_bytes: Whole | None = None
    celsius: Whole | None = None


class Sampled(Event, frozen=True, kw_only=True, tag="sampled", omit_defaults=True):
    """One sample of a machine.

    `seconds` have passed since the previous sample; 0 means the first. `cores` are the shares
    of time for which each core was busy, `steal` the share of all cores' time that other guests
    of the same host took. Counters: `interfaces`, `peers` (the run's own connections),
    `disk_read`, `disk_written`, `own_cpu` (CPU seconds of the run's processes here),
    `held_back` (seconds for which a CPU quota stopped them), and `sampler_cpu` (CPU seconds of
    the sampler). `own_read` and `own_written` are the run's share of the disks' bytes; None if
    the system, or an older version, does not say. `memory_limit` is that of the container, if
    there is one.
    """

    seconds: Seconds = 0.0
    interfaces: dict[str, Traffic] = {}
    peers: dict[str, Peer] = {}
    cores: list[Number] = []
    steal: Number = 0.0
    disk_wait: Seconds = 0.0
    memory_used: Whole = 0
    memory_limit: Whole = 0
    disk_read: Whole = 0
    disk_written: Whole = 0
    own_cpu: Seconds = 0.0
    own_memory: Whole = 0
    held_back: Seconds = 0.0
    sampler_cpu: Seconds = 0.0
    own_read: Whole | None = None
    own_written: Whole | None = None
    gpus: list[Gpu] = []


SamplerEvent = Machine | Sampled | Warned

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(SamplerEvent)


def to_line(event: SamplerEvent) -> bytes:
    """Return `event` as a line of JSON, without the line break."""
    return _encoder.encode(event)


def from_lines(
    lines: Iterable[bytes], damaged: list[str] | None = None
) -> Iterator[SamplerEvent]:
    """Yield the events in `lines`; skip torn and damaged lines and those of a newer version."""
    for line in lines:
        try:
            yield _decoder.decode(line)
        except PARSER_ERRORS as error:
            note_damage(error, damaged)


@dataclass(frozen=True)
class MachineLog:
    """The samples of one machine in order of time; `machines` has an entry for each start."""

    machines: tuple[Machine, ...] = ()
    samples: tuple[Sampled, ...] = ()
    warnings: tuple[Warned, ...] = ()

    @property
    def host(self) -> str:
        """Return the name of the machine, "" if it is not recorded."""
        return self.machines[-1].host if self.machines else ""

    @property
    def of_last_start(self) -> tuple[Sampled, ...]:
        """Return the samples since the last start, where counters of processes begin at 0."""
        began = self.machines[-1].time if self.machines else 0.0
        return tuple(sample for sample in self.samples if sample.time >= began)


def read_machines(
    directory: RunDirectory, damage: DamageLog | None = None
) -> dict[int, MachineLog]:
    """Return the samples of each machine, by the rank of its first process."""
    damage = damage or DamageLog(directory.path)
    files = numbered_files(directory.path / "monitor", "rank", ".jsonl")
    return {rank: _read(damage.events(file, from_lines)) for rank, file in files}


def _read(events: list[SamplerEvent]) -> MachineLog:
    return MachineLog(
        machines=tuple(event for event in events if isinstance(event, Machine)),
        samples=tuple(event for event in events if isinstance(event, Sampled)),
        warnings=tuple(event for event in events if isinstance(event, Warned)),
    )


def latest_starts(starts: Iterable[Started]) -> tuple[Started, ...]:
    """Return the latest start of each rank of the last session, in order of rank."""
    latest = {start.rank: start for start in starts}
    size = latest[0].size if 0 in latest else len(latest)
    return tuple(latest[rank] for rank in sorted(latest) if rank < size)


def shared_names(starts: Iterable[Started]) -> set[str]:
    """Return the names that several machines share: a machine has each local rank once."""
    places = Counter((start.host, start.local_rank) for start in latest_starts(starts))
    return {host for (host, _), times in places.items() if times > 1}


def told_apart(starts: Iterable[Started]) -> tuple[Started, ...]:
    """Return the starts; machines that share a name get their address added."""
    starts = tuple(starts)
    shared = shared_names(starts)
    return tuple(
        msgspec.structs.replace(start, host=f"{start.host} ({start.address})")
        if start.host in shared and start.address
        else start
        for start in starts
    )
