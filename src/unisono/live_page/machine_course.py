"""What a machine did over the whole run, in few samples, however long the run takes.

Each kept sample stands for a stretch of training: its levels are means, and its counters and
its clock leave out the validations, checkpoints and pauses between. So the drawing of the
report takes them for the samples of a run without pauses.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from unisono.diagnose.evidence.counters import Stretch
from unisono.live_page.course import Course
from unisono.records.monitor_events import Gpu, Sampled, Traffic
from unisono.report.machine_curves import SampledMachine, TimedBin

MOST_STRETCHES = 200
MOST_WAITING = 1000  # samples of an update that is not over yet
COUNTERS = ("own_cpu", "disk_read", "disk_written", "own_read", "own_written")
GPU_LEVELS = ("utilisation", "watts", "memory_used")


@dataclass(frozen=True, slots=True)
class SampledStretch:
    """A stretch of training: its middle step and its sample, whose time is training alone."""

    step: float
    sample: Sampled

    def joined(self, later: "SampledStretch") -> "SampledStretch":
        share = self.sample.seconds / max(1e-9, self.sample.seconds + later.sample.seconds)
        step = share * self.step + (1 - share) * later.step
        return SampledStretch(step, _joined(self.sample, later.sample))


@dataclass
class MachineCourse:
    """The samples of one machine during updates."""

    _began: Sampled | None = None
    _last: Sampled | None = None
    _now: Sampled = field(default_factory=lambda: Sampled(time=0.0))
    _kept: list[SampledStretch] = field(default_factory=list)
    _width: int = 1
    _open: list[SampledStretch] = field(default_factory=list)
    _waiting: deque[Sampled] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))

    def add(self, sample: Sampled) -> None:
        """Take note of a sample, in the order of time."""
        self._waiting.append(sample)

    def settle(self, course: Course) -> None:
        """Put the samples in their places as far as the updates have come."""
        while self._waiting and self._waiting[0].time <= course.until:
            sample = self._waiting.popleft()
            before, self._last = self._last, sample
            if before is None or not sample.time > before.time:
                continue
            step = course.step_between(before.time, sample.time)
            if step is not None:
                self._take(before, sample, step)

    def undo(self, step: int) -> None:
        """Forget what belongs to updates after `step`."""
        self._kept = [one for one in self._kept if one.step <= step]
        self._open = [one for one in self._open if one.step <= step]

    def machine(self, host: str, rank: int, cores: int) -> SampledMachine:
        """Return the machine as the report draws it."""
        stretches = [*self._kept, *self._joined_open()]
        samples = [one.sample for one in stretches]
        first = [] if self._began is None or not samples else [self._began]
        return SampledMachine(
            host=host,
            rank=rank,
            cores=cores,
            samples=(*first, *samples),
            bins=tuple(map(_bin, stretches)),
        )

    def _take(self, before: Sampled, sample: Sampled, step: float) -> None:
        """Add what happened between two samples to the clock and the counters."""
        if self._began is None:
            self._began = replace(self._now, interfaces=_no_traffic(sample))
            self._now = self._began
        seconds = sample.time - before.time
        self._now = replace(
            sample,
            time=self._now.time + seconds,
            seconds=seconds,
            interfaces=_carried(self._now, before, sample),
            **{name: _risen(name, self._now, before, sample) for name in COUNTERS},
        )
        self._open.append(SampledStretch(step, self._now))
        if len(self._open) >= self._width:
            self._kept += self._joined_open()
            self._open = []
            self._halve()

    def _halve(self) -> None:
        if len(self._kept) >= MOST_STRETCHES:
            kept = self._kept
            self._kept = [a.joined(b) for a, b in zip(kept[::2], kept[1::2], strict=False)]
            self._kept += kept[len(kept) // 2 * 2 :]
            self._width *= 2

    def _joined_open(self) -> list[SampledStretch]:
        if not self._open:
            return []
        joined = self._open[0]
        for later in self._open[1:]:
            joined = joined.joined(later)
        return [joined]


def _bin(one: SampledStretch) -> TimedBin:
    ended = one.sample.time
    stretch = Stretch(ended - one.sample.seconds, ended, 1)
    return TimedBin(one.step, (stretch,), (one.sample,))


def _rise(before: float | None, after: float | None) -> float:
    """Return by how much a counter rose; it begins at 0 again where a machine restarts."""
    if before is None or after is None:
        return 0.0
    return after - before if after >= before else after


def _risen(name: str, now: Sampled, before: Sampled, after: Sampled) -> float | None:
    if getattr(after, name) is None:
        return None
    rise = _rise(getattr(before, name), getattr(after, name))
    risen: float = (getattr(now, name) or 0) + rise
    return risen


def _carried(now: Sampled, before: Sampled, after: Sampled) -> dict[str, Traffic]:
    found = {}
    for name, traffic in after.interfaces.items():
        so_far, earlier = (one.interfaces.get(name, Traffic()) for one in (now, before))
        found[name] = Traffic(
            received=so_far.received + int(_rise(earlier.received, traffic.received)),
            sent=so_far.sent + int(_rise(earlier.sent, traffic.sent)),
        )
    return found


def _no_traffic(sample: Sampled) -> dict[str, Traffic]:
    return dict.fromkeys(sample.interfaces, Traffic())


def _joined(a: Sampled, b: Sampled) -> Sampled:
    """Return the counters of the later sample, and the means of both for what has a level."""
    mean = _weighted(a.seconds, b.seconds)
    alike = len(a.cores) == len(b.cores)
    return replace(
        b,
        seconds=a.seconds + b.seconds,
        cores=[mean(x, y) for x, y in zip(a.cores, b.cores, strict=True)] if alike else b.cores,
        steal=mean(a.steal, b.steal),
        memory_used=int(mean(a.memory_used, b.memory_used)),
        gpus=_joined_gpus(a.gpus, b.gpus, mean),
    )


def _weighted(first: float, second: float) -> Callable[[float, float], float]:
    whole = max(1e-9, first + second)
    return lambda x, y: (first * x + second * y) / whole


def _joined_gpus(
    earlier: Sequence[Gpu], later: Sequence[Gpu], mean: Callable[[float, float], float]
) -> list[Gpu]:
    before = {gpu.index: gpu for gpu in earlier}
    return [
        replace(gpu, **_levels(before[gpu.index], gpu, mean)) if gpu.index in before else gpu
        for gpu in later
    ]


def _levels(a: Gpu, b: Gpu, mean: Callable[[float, float], float]) -> dict[str, float | int]:
    found: dict[str, float | int] = {}
    for name in GPU_LEVELS:
        x, y = getattr(a, name), getattr(b, name)
        if x is not None and y is not None:
            found[name] = type(y)(mean(x, y))
    return found
