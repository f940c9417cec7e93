"""Panels of the machines: network, cores, disks, memory, GPUs and their power."""

from collections.abc import Sequence
from dataclasses import replace

from unisono.diagnose.wording import listing
from unisono.records.monitor_events import Gpu
from unisono.records.view import RunView
from unisono.report.machine_curves import (
    STYLES,
    Points,
    SampledMachine,
    busy_cores,
    carried,
    disk,
    memory,
    of_gpus,
    over_machines,
    own_cores,
    own_disk,
    stolen,
)
from unisono.report.panel import Curve, Panel, digits_for

NOTICEABLE_STEAL = 1.0  # percent
NOTICEABLE_DISK = 0.1  # MB/s
LOOPBACK = "lo"
MBIT, GBIT = 8e-6, 8e-9  # of a byte
MANY_MBIT = 10_000


def network_panel(run: RunView, machines: Sequence[SampledMachine]) -> Panel:
    """Show what the interfaces of the exchange carried; empty for a process alone.

    On one machine that is the loopback interface, whose traffic is not network traffic. For
    several machines it shows what each sends: another one receives the same bytes.
    """
    interfaces = {start.rank: start.interface for start in run.last_starts}
    if len(interfaces) < 2 or not machines:
        return Panel("Network rate", "")
    if len(run.hosts) == 1:
        curves = over_machines(machines, carried(dict.fromkeys(interfaces, LOOPBACK), "sent"))
        words = "between the processes of the machine; this is not network traffic"
        return _rates(words, curves, "Loopback rate")
    names = sorted({interfaces[machine.rank] for machine in machines})
    if len(machines) == 1:
        both = {way: carried(interfaces, way) for way in ("sent", "received")}
        return _rates(f"through {listing(names)}", _of_one(machines[0], both))
    curves = over_machines(machines, carried(interfaces, "sent"))
    return _rates(f"sent through {listing(names)}", curves)


def machine_panels(run: RunView, machines: Sequence[SampledMachine]) -> list[Panel]:
    """Return the panels of cores, disks, memory and GPUs; some may be empty."""
    use = over_machines(machines, of_gpus(run, _utilisation))
    filled = over_machines(machines, of_gpus(run, _gpu_memory))
    return [
        _cores(machines),
        _steal(machines),
        _percents("GPU use", "% of the time, mean of the GPUs of a machine", use),
        _power(run, machines),
        _amounts("GPU memory", "GB, mean of the GPUs of a machine", "GB", filled),
        _disk(machines),
        _amounts("Memory", _memory_words(machines), "GB", over_machines(machines, memory)),
    ]


def _of_one(machine: SampledMachine, reads: dict[str, Points]) -> list[Curve]:
    found = [(name, read(machine)) for name, read in reads.items()]
    named = zip(found, STYLES, strict=False)
    return [Curve(name, points, style) for (name, points), style in named if points]


def _rates(words: str, curves: Sequence[Curve], title: str = "Network rate") -> Panel:
    """Return rates in Mbit/s, or in Gbit/s where they are high; empty if nothing was sent."""
    top = _top(curves)
    if top <= 0:
        return Panel(title, "")
    unit, factor = ("Gbit/s", GBIT) if MBIT * top >= MANY_MBIT else ("Mbit/s", MBIT)
    scaled = [
        replace(
            curve,
            points=[(x, factor * y) for x, y in curve.points],
            band=[(x, factor * low, factor * high) for x, low, high in curve.band],
        )
        for curve in curves
    ]
    return _amounts(title, f"{unit} {words}", unit, scaled)


def _amounts(title: str, words: str, unit: str, curves: Sequence[Curve]) -> Panel:
    top = _top(curves)
    digits = digits_for(top)
    written = [replace(curve, digits=digits, unit=unit) for curve in curves]
    return Panel(title, words, written, bounds=(0.0, 1.15 * top or 1.0), height="low")


def _percents(title: str, words: str, curves: Sequence[Curve]) -> Panel:
    written = [replace(curve, digits=0, unit="%") for curve in curves]
    return Panel(title, words, written, bounds=(0.0, max(104.0, _top(curves))), height="low")


def _top(curves: Sequence[Curve]) -> float:
    return max((y for curve in curves for _, y in curve.points), default=0.0)


def _cores(machines: Sequence[SampledMachine]) -> Panel:
    words = "% of all cores"
    if len(machines) == 1:
        curves = _of_one(machines[0], {"all programs": busy_cores, "this run": own_cores})
        return _percents("CPU use", f"{words} ({machines[0].cores})", curves)
    return _percents(
        "CPU use", f"{words}, by all programs", over_machines(machines, busy_cores)
    )


def _steal(machines: Sequence[SampledMachine]) -> Panel:
    curves = over_machines(machines, stolen)
    if _top(curves) < NOTICEABLE_STEAL:
        curves = []
    words = "% of the cores' time that the host gave to other guests"
    return _amounts("Stolen time", words, "%", curves)


def _disk(machines: Sequence[SampledMachine]) -> Panel:
    """Show the bytes read from and written to disks; empty where there are next to none."""
    words = "MB/s read and written"
    if len(machines) == 1:
        curves = _of_one(machines[0], {"all programs": disk, "this run": own_disk})
    else:
        words += ", by all programs"
        curves = over_machines(machines, disk)
    return _amounts("Disk", words, "MB/s", curves if _top(curves) >= NOTICEABLE_DISK else [])


def _power(run: RunView, machines: Sequence[SampledMachine]) -> Panel:
    """Show the power of the GPUs and what they may draw."""
    drawn = over_machines(machines, of_gpus(run, lambda gpu: gpu.watts))
    limits = [
        replace(curve, name="limit", style="limit", dashed=True, band=())
        for curve in over_machines(machines, of_gpus(run, lambda gpu: gpu.limit_watts))
    ]
    alike = limits[:1] if len({curve.last for curve in limits}) == 1 else []
    words = "watts, mean of the GPUs of a machine"
    panel = _amounts("GPU power", words, "W", [*drawn, *alike] if drawn else [])
    return replace(panel, curves=[replace(curve, digits=0) for curve in panel.curves])


def _memory_words(machines: Sequence[SampledMachine]) -> str:
    limits = {machine.samples[-1].memory_limit for machine in machines}
    if len(limits) == 1 and all(limits):
        return f"GB of {limits.pop() / 1e9:.1f}"
    return "GB"


def _utilisation(gpu: Gpu) -> float | None:
    return None if gpu.utilisation is None else 100 * gpu.utilisation


def _gpu_memory(gpu: Gpu) -> float | None:
    return None if gpu.memory_used is None else gpu.memory_used / 1e9
