"""What the machines of a run are doing, by their latest samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from unisono.diagnose.wording import percent
from unisono.records.monitor_events import Gpu, MachineLog, Sampled, Traffic
from unisono.records.view import RunView
from unisono.units import duration

WINDOW_SECONDS = 5.0  # a rate over less would jump
SILENCE_SECONDS = 150.0  # after a day of training there is a sample every 30 s
LOOPBACK = "lo"
MBIT = 8e-6
LEAST_STEAL = 0.005
MOST_GPUS = 2  # of more, the page shows the mean


@dataclass(frozen=True)
class MachineNow:
    """One machine: shares of 1, and bytes a second each way over `interface`.

    `silent` are the seconds since its last sample.
    """

    host: str
    interface: str
    received: float
    sent: float
    cores: float
    memory: float
    steal: float
    gpus: tuple[Gpu, ...]
    silent: float


def machines_now(view: RunView, now: float) -> tuple[MachineNow, ...]:
    """Return the machines of the last start that have samples."""
    starts = {start.rank: start for start in view.last_starts}
    found = (
        _machine(log, starts[rank].interface, now)
        for rank, log in sorted(view.machines.items())
        if rank in starts
    )
    return tuple(machine for machine in found if machine is not None)


def words(machine: MachineNow) -> list[str]:
    """Return what a machine does in words, the most important first."""
    if machine.silent > SILENCE_SECONDS:
        return [f"no sample for {duration(machine.silent)}"]
    said = []
    if machine.interface:
        received, sent = MBIT * machine.received, MBIT * machine.sent
        said.append(f"{machine.interface} ↓ {_rate(received)} ↑ {_rate(sent)} Mbit/s")
    said.append(f"CPU {percent(machine.cores)}")
    said += _gpus(machine.gpus)
    if machine.steal >= LEAST_STEAL:
        said.append(f"steal {percent(machine.steal)}")
    if machine.memory > 0:
        said.append(f"memory {percent(machine.memory)}")
    return said


def _machine(log: MachineLog, interface: str, now: float) -> MachineNow | None:
    began = log.machines[-1].time if log.machines else 0.0
    samples = [sample for sample in log.samples if sample.time >= began]
    if not samples:
        return None
    last = samples[-1]
    first = next(s for s in samples if s.time >= last.time - WINDOW_SECONDS or s is last)
    if first is last and len(samples) > 1:
        first = samples[-2]
    within = [s for s in samples if s.time > first.time and s.cores] or [last]
    name = interface if interface in last.interfaces else _busiest(first, last)
    return MachineNow(
        host=log.host,
        interface=name,
        received=_per_second(first, last, name, "received"),
        sent=_per_second(first, last, name, "sent"),
        cores=fmean(fmean(s.cores) if s.cores else 0.0 for s in within),
        memory=last.memory_used / last.memory_limit if last.memory_limit else 0.0,
        steal=fmean(s.steal for s in within),
        gpus=tuple(last.gpus),
        silent=max(0.0, now - last.time),
    )


def _busiest(first: Sampled, last: Sampled) -> str:
    """Return the interface that carries most, "" if there is only the loopback interface."""
    names = [name for name in last.interfaces if name != LOOPBACK]

    def carried(name: str) -> float:
        ways = ("received", "sent")
        return sum(_per_second(first, last, name, way) for way in ways)

    return max(names, key=carried, default="")


def _per_second(first: Sampled, last: Sampled, name: str, way: str) -> float:
    before, after = (s.interfaces.get(name, Traffic()) for s in (first, last))
    rise, seconds = getattr(after, way) - getattr(before, way), last.time - first.time
    return max(0.0, rise / seconds) if seconds > 0 else 0.0


def _rate(mbit: float) -> str:
    return f"{mbit:.0f}" if mbit >= 10 or mbit < 0.05 else f"{mbit:.1f}"


def _gpus(gpus: Sequence[Gpu]) -> list[str]:
    if len(gpus) <= MOST_GPUS:
        return [f"GPU {gpu.index} {said}" for gpu in gpus if (said := _gpu([gpu]))]
    return [f"{len(gpus)} GPUs {_gpu(gpus)}"]


def _gpu(gpus: Sequence[Gpu]) -> str:
    """Return the mean utilisation and the total power in words."""
    busy = [gpu.utilisation for gpu in gpus if gpu.utilisation is not None]
    watts = [gpu.watts for gpu in gpus if gpu.watts is not None]
    limits = [gpu.limit_watts for gpu in gpus if gpu.limit_watts is not None]
    said = [percent(fmean(busy))] if busy else []
    if watts:
        limit = f"/{sum(limits):.0f}" if len(limits) == len(watts) else ""
        said.append(f"{sum(watts):.0f}{limit} W")
    return " ".join(said)
