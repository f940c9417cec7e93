"""What the disks of a machine did while something went on: all programs, and the run's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from unisono.diagnose.counted import Stretch, counter_of, during
from unisono.diagnose.words import percent
from unisono.records.events import Saved
from unisono.records.machines import MachineLog
from unisono.records.sampled import Sampled
from unisono.units import amount_of_bytes

NOTICEABLE = 1e6  # bytes a second
NOTICEABLE_WAIT = 0.02
LEAST_SECONDS = 2.0


@dataclass(frozen=True)
class DiskUse:
    """Bytes a second from and to all disks, and what of it the run's processes read and wrote.

    `wait` is the share of all cores' time spent waiting for disks. What a process writes is
    counted when it says so, and on the disk when it gets there: over a short time the one may
    be more than the other.
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
        """Return whether the disks had anything to do."""
        own = (self.own_read or 0.0) + (self.own_written or 0.0)
        busy = max(self.read + self.written, own) >= NOTICEABLE
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
        if foreign is None or foreign < max(NOTICEABLE, own):
            return ()
        return (f"other programs moved {_rate(foreign)} from and to the disks of {host}",)


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

    One that was over between two looks tells nothing: its bytes are spread over both.
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
