"""How busy the machines were during the updates: cores, memory, disks and GPUs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from unisono.diagnose.evidence.counters import Stretch, counter_of, during, stretches_of
from unisono.diagnose.wording import percent
from unisono.records.events import Saved
from unisono.records.monitor_events import Gpu, MachineLog, Sampled
from unisono.records.view import RunView
from unisono.units import amount_of_bytes

LEAST_SAMPLES, LEAST_SECONDS = 3, 2.0
NOTICEABLE_BYTES = 1e6  # a second
NOTICEABLE_WAIT = 0.02
# Shares of the limit; torch keeps the GPU memory it once had, so GPUs may come closer to it.
FULL_MEMORY, FULL_GPU_MEMORY = 0.92, 0.97


@dataclass(frozen=True)
class DiskUse:
    """Bytes a second from and to all disks, and what of it the run's processes read and wrote.

    `wait` is the share of all cores' time spent waiting for disks. The kernel counts a
    process's bytes when it writes them, a disk's when they reach it: over a short time either
    may be the larger.
    """

    read: float
    written: float
    own_read: float | None
    own_written: float | None
    wait: float

    @property
    def foreign(self) -> float | None:
        """Return the bytes a second that were not the run's; None if its own are not known."""
        if self.own_read is None or self.own_written is None:
            return None
        apart = (self.read - self.own_read, self.written - self.own_written)
        return sum(max(0.0, rate) for rate in apart)

    @property
    def is_noticeable(self) -> bool:
        """Return whether the disks were in use."""
        own = (self.own_read or 0.0) + (self.own_written or 0.0)
        busy = max(self.read + self.written, own) >= NOTICEABLE_BYTES
        return busy or self.wait >= NOTICEABLE_WAIT

    def words(self, host: str) -> str:
        """Say what the disks did, in a line of evidence."""
        ways = (("read", self.read, self.own_read), ("wrote", self.written, self.own_written))
        told = [f"{name} {_rate(rate)}{_of_run(own)}" for name, rate, own in ways]
        wait = ""
        if self.wait >= NOTICEABLE_WAIT:
            wait = f"; {percent(self.wait)} of its processors' time was waiting for disks"
        return f"the disks of {host} {' and '.join(told)}{wait}"

    def foreign_words(self, host: str) -> tuple[str, ...]:
        """Say that other programs use the disks, if they do more than the run."""
        foreign, own = self.foreign, (self.own_read or 0.0) + (self.own_written or 0.0)
        if foreign is None or foreign < max(NOTICEABLE_BYTES, own):
            return ()
        return (f"other programs moved {_rate(foreign)} from and to the disks of {host}",)


@dataclass(frozen=True)
class GpuUse:
    """Means over the training of one GPU; None is not known.

    `throttled` says for which share of the time what held its clock down. `memory_share` and
    `own_memory_share`, what the run had of it, are those when it was fullest; `others` is the
    largest number of further processes on it.
    """

    host: str
    index: int
    utilisation: float | None
    watts: float | None
    limit_watts: float | None
    memory_share: float | None
    throttled: dict[str, float]
    mhz: float | None = None
    most_mhz: float | None = None
    own_memory_share: float | None = None
    others: int | None = None

    @property
    def is_full(self) -> bool:
        """Return whether a longer batch than any so far may not fit."""
        return self.memory_share is not None and self.memory_share >= FULL_GPU_MEMORY

    @property
    def clock_share(self) -> float | None:
        """Return its clock as a share of the fastest."""
        if self.mhz is None or not self.most_mhz:
            return None
        return self.mhz / self.most_mhz


@dataclass(frozen=True)
class Load:
    """One machine: `busy`, `own` and `foreign` are cores, `threads` those the run wants.

    `steal` is a share of the time of all cores, `held_back` seconds a second for which a quota
    did, over all cores; `memory` is the highest share of the limit.
    """

    rank: int
    host: str
    seconds: float
    cores: int
    threads: int
    busy: float
    own: float
    steal: float
    held_back: float
    memory: float
    memory_limit: int
    own_memory: int
    gpus: tuple[GpuUse, ...] = ()
    disk: DiskUse | None = None

    @property
    def is_full(self) -> bool:
        """Return whether the machine is nearly out of memory."""
        return self.memory >= FULL_MEMORY

    @property
    def foreign(self) -> float:
        """Return the cores that other programs used."""
        return max(0.0, self.busy - self.own)

    @property
    def own_share(self) -> float:
        """Return the share of the run's threads that computed, of those that have a core."""
        return self.own / max(1, min(self.threads, self.cores))


def loads_of(run: RunView) -> tuple[Load, ...]:
    """Return the machines of the last start that were sampled for long enough."""
    loads = (_load(run, rank, log) for rank, log in run.machines.items())
    return tuple(load for load in loads if load is not None)


def _load(run: RunView, rank: int, log: MachineLog) -> Load | None:
    start = next((start for start in run.last_starts if start.rank == rank), None)
    if start is None or not log.machines:
        return None
    samples = log.of_last_start
    steps = [step for step in run.ranks.get(rank, ()) if step.time >= start.time]
    stretches = stretches_of(steps, samples)
    within = [sample for sample in during(samples, stretches) if sample.seconds > 0]
    seconds = sum(stretch.seconds for stretch in stretches)
    if len(within) < LEAST_SAMPLES or seconds < LEAST_SECONDS:
        return None
    here = [s for s in run.last_starts if s.host == start.host]
    rise = {
        name: counter.over(stretches) / seconds
        for name in ("own_cpu", "held_back")
        if (counter := counter_of(samples, lambda s, n=name: float(getattr(s, n))))  # type: ignore[misc]
    }
    fullest = max(samples, key=_memory_share)
    return Load(
        rank=rank,
        host=start.host,
        seconds=seconds,
        cores=log.machines[-1].cores,
        threads=sum(s.threads for s in here if s.device == "cpu"),
        busy=_mean(within, [sum(s.cores) for s in within]),
        own=rise.get("own_cpu", 0.0),
        steal=_mean(within, [s.steal for s in within]),
        held_back=rise.get("held_back", 0.0),
        memory=_memory_share(fullest),
        memory_limit=fullest.memory_limit,
        own_memory=fullest.own_memory,
        gpus=tuple(_gpus(start.host, own_gpus(run, rank), within)),
        disk=disk_use(samples, stretches),
    )


def _memory_share(sample: Sampled) -> float:
    return sample.memory_used / sample.memory_limit if sample.memory_limit else 0.0


def _mean(samples: Sequence[Sampled], values: Sequence[float]) -> float:
    total = sum(sample.seconds for sample in samples)
    weighted = (s.seconds * value for s, value in zip(samples, values, strict=True))
    return sum(weighted) / total if total > 0 else 0.0


def own_gpus(run: RunView, rank: int) -> set[int]:
    """Return the numbers that the run's GPUs on the machine of `rank` have in its samples."""
    log = run.machines.get(rank)
    if log is not None and log.machines and log.machines[-1].used:
        return set(log.machines[-1].used)
    host = next((start.host for start in run.last_starts if start.rank == rank), None)
    here = [start.device for start in run.last_starts if start.host == host]
    return {index_of(device) for device in here if device.startswith("cuda")}


def _gpus(host: str, wanted: set[int], samples: Sequence[Sampled]) -> Iterable[GpuUse]:
    seen = sorted({gpu.index for sample in samples for gpu in sample.gpus})
    for index in [i for i in seen if i in wanted]:
        looks = [gpu for sample in samples for gpu in sample.gpus if gpu.index == index]
        yield _gpu(host, index, looks)


def index_of(device: str) -> int:
    """Return the number of a device such as "cuda:1"; 0 if it has none."""
    number = device.partition(":")[2]
    return int(number) if number.isdecimal() else 0


def _gpu(host: str, index: int, looks: Sequence[Gpu]) -> GpuUse:
    filled = [g for g in looks if g.memory_used and g.memory_total]
    fullest = max(filled, key=lambda g: _share(g.memory_used, g), default=None)
    reasons = {reason for gpu in looks for reason in gpu.throttled}
    return GpuUse(
        host=host,
        index=index,
        utilisation=_known([gpu.utilisation for gpu in looks]),
        watts=_known([gpu.watts for gpu in looks]),
        limit_watts=_known([gpu.limit_watts for gpu in looks]),
        memory_share=_share(fullest.memory_used, fullest) if fullest else None,
        throttled={
            r: sum(r in g.throttled for g in looks) / len(looks) for r in sorted(reasons)
        },
        mhz=_known([gpu.mhz for gpu in looks]),
        most_mhz=_known([gpu.most_mhz for gpu in looks]),
        own_memory_share=_share(fullest.own_memory, fullest)
        if fullest and fullest.own_memory is not None
        else None,
        others=max((gpu.others for gpu in looks if gpu.others is not None), default=None),
    )


def _share(used: int | None, gpu: Gpu) -> float:
    return (used or 0) / (gpu.memory_total or 1)


def _known(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return fmean(there) if there else None


def disk_use(samples: Sequence[Sampled], stretches: Sequence[Stretch]) -> DiskUse | None:
    """Return what the disks did during the stretches; None if nothing was sampled of it."""
    seconds = sum(stretch.seconds for stretch in stretches)
    if seconds <= 0 or len(samples) < 2:
        return None
    rates: dict[str, float | None] = {}
    for name in ("disk_read", "disk_written", "own_read", "own_written"):
        counter = counter_of(samples, lambda s, n=name: getattr(s, n))  # type: ignore[misc]
        rates[name] = counter.over(stretches) / seconds if counter else None
    within = [sample for sample in during(samples, stretches) if sample.seconds > 0]
    passed = sum(sample.seconds for sample in within)
    waited = sum(sample.seconds * sample.disk_wait for sample in within)
    return DiskUse(
        read=rates["disk_read"] or 0.0,
        written=rates["disk_written"] or 0.0,
        own_read=rates["own_read"],
        own_written=rates["own_written"],
        wait=waited / passed if passed > 0 else 0.0,
    )


def disk_during_saves(log: MachineLog, saves: Sequence[Saved]) -> DiskUse | None:
    """Return what the disks did while checkpoints were saved; None if too little was sampled.

    A save that began and ended between two samples does not count: its bytes are smeared.
    """
    samples = log.of_last_start
    looks = [sample.seconds for sample in samples if sample.seconds > 0]
    if not looks:
        return None
    first, last, every = samples[0].time, samples[-1].time, median(looks)
    stretches = [
        Stretch(save.time - save.seconds, save.time, 0)
        for save in saves
        if save.seconds >= every and first <= save.time - save.seconds <= save.time <= last
    ]
    if sum(stretch.seconds for stretch in stretches) < LEAST_SECONDS:
        return None
    return disk_use(samples, stretches)


def _rate(bytes_per_second: float) -> str:
    return f"{amount_of_bytes(round(bytes_per_second))}/s"


def _of_run(own: float | None) -> str:
    return "" if own is None else f" (this run {_rate(own)})"
