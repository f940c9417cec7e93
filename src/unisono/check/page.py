"""A forecast for programs: everything, as JSON.

A forecast for a person: machines, work, all ways to train, and what to do.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from unisono.cost_model.forecast import Forecast
from unisono.cost_model.memory import memory_of
from unisono.cost_model.probe_results import ProbeResults, Process
from unisono.cost_model.scenarios import Scenario
from unisono.cost_model.strategies import DEFAULT_STRATEGY
from unisono.printable import printable
from unisono.units import amount_of_bytes, duration

FORMAT = 1


def json_of(found: Forecast) -> str:
    """Return the forecast and all that was measured; what is unknown is null."""
    ways = {
        "ways": [_plain(way) for way in found.ways],
        "alone": _plain(found.alone),
        "fewer": [_plain(way) for way in found.fewer],
    }
    return json.dumps(
        {
            "format": FORMAT,
            "stop": found.stop,
            "configured": found.chosen.exchange.name,
            "advised": {
                "machines": found.advised.machines,
                "exchange": found.advised.exchange.name,
            },
            "notes": found.notes,
            "link_bytes_per_second": found.link.bytes_per_second,
            **ways,
            "measured": msgspec.to_builtins(found.measured),
        }
    )


def _plain(way: Scenario) -> dict[str, Any]:
    return {
        "machines": way.machines,
        "hosts": way.hosts,
        "exchange": way.exchange.name,
        "exact": way.exchange.exact,
        "bytes_per_exchange": round(way.exchange.card_bytes),
        "every": way.exchange.every,
        "bucket_mb": way.bucket_mb,
        "step_seconds": way.seconds.middle,
        "step_seconds_90": [way.seconds.low, way.seconds.high],
        "computing": way.step.computing,
        "exposed": way.step.exposed,
        "hidden": way.step.hidden,
        "waiting": way.waiting,
        "update_seconds": way.update_seconds,
        "together": way.course.together,
        "together_seconds": way.course.together_seconds,
        "meetings": way.course.meetings,
        "meeting_seconds": way.course.meeting_seconds,
        "hours": way.hours if way.course.updates else None,
        "money": way.money if way.course.updates else None,
        "speedup": way.speedup,
        "stop": way.stop,
    }


def page_of(found: Forecast) -> str:
    """Return the page that a person reads."""
    lines = [*_about_machines(found), "", *_about_work(found), "", *_table(found)]
    lines += [f"note: {note}" for note in found.notes]
    if found.stop:
        lines += ["", f"STOP: {found.stop}"]
    lines += ["", _advice(found), f"(the check took {duration(found.measured.seconds)})"]
    return "\n".join(printable(line) for line in lines)


def _about_machines(found: Forecast) -> list[str]:
    measured, job = found.measured, found.measured.job
    full = all(len(ranks) == measured.workers for ranks in measured.members)
    each = f"{'' if full else 'up to '}{_count(measured.workers, 'process', 'es')} each"
    lines = [
        f"{_count(measured.machines, 'machine')} with {each}; "
        f"{job.parameters:,} parameters, {job.tokens_per_update:,.0f} target tokens an update"
    ]
    lines += [f"  {_machine(found, number)}" for number in range(measured.machines)]
    return [*lines, *_about_network(measured)]


def _about_network(measured: ProbeResults) -> list[str]:
    lines = []
    rates = [
        f"{_mbit(pair.rate)} from {measured.machine(pair.sender)} to "
        f"{measured.machine(pair.receiver)}"
        for pair in measured.pairs
    ]
    if rates:
        lines.append(f"  network: {'; '.join(rates)}")
    if measured.pulses:
        lines.append(
            f"  a steady stream: {_mbit(measured.pulses[0])} at first, "
            f"{_mbit(measured.pulses[-1])} at last; the smallest sum over all processes "
            f"takes {duration(measured.latency)}"
        )
    return lines


def _machine(found: Forecast, number: int) -> str:
    measured, ranks = found.measured, found.measured.members[number]
    first = measured.processes[ranks[0]]
    memory = memory_of(measured, ranks, found.strategy)
    link = ""
    if first.interface:
        nominal = f" (sold as {first.nominal_mbit:,} Mbit/s)" * (first.nominal_mbit > 0)
        link = f", {first.interface}{nominal}"
    return (
        f"{measured.machine(number)}: {_count(len(ranks), 'process', 'es')} on "
        f"{_devices([measured.processes[rank] for rank in ranks])}, "
        f"{_count(first.cores, 'core')}, memory {amount_of_bytes(memory.needed)} of "
        f"{amount_of_bytes(memory.there)}, "
        f"disk {amount_of_bytes(first.free_disk_bytes)} free{link}"
    )


def _devices(processes: Sequence[Process]) -> str:
    """Return the devices of a machine by their names; its processes share the processor."""
    counts = Counter(process.device for process in processes)
    names = [name if name == "cpu" else f"{count} x {name}" for name, count in counts.items()]
    return ", ".join(names)


def _about_work(found: Forecast) -> list[str]:
    work, measured = found.work, found.measured
    computing = work.forward + work.backward + work.optimizer
    lines = [
        f"computing   {duration(computing)} an update: forward {duration(work.forward)}, "
        f"backward {duration(work.backward)}, optimizer {duration(work.optimizer)}; "
        f"besides {duration(work.other)}",
        f"data        {duration(measured.loader_seconds)} an update, prepared meanwhile",
        _about_evaluation(measured),
        _about_checkpoint(measured),
    ]
    exact = found.ways[0]
    if exact.exchange.card_bytes:
        lines.append(
            f"exchange    {amount_of_bytes(exact.exchange.card_bytes)} an update through each "
            f"card, at {_mbit(found.link.bytes_per_second)} through the process group, "
            f"{found.chosen.bucket_mb:g} MB at a time"
        )
    return lines


def _about_evaluation(measured: ProbeResults) -> str:
    if "evaluations" in measured.unmeasured:
        return "evaluation  not measured"
    translated = f"of which {duration(measured.translation_seconds)} for translations"
    if "translations" in measured.unmeasured:
        translated = "and translations, which were not measured"
    return f"evaluation  {duration(measured.evaluation_seconds)}, {translated}"


def _about_checkpoint(measured: ProbeResults) -> str:
    if "checkpoints" in measured.unmeasured:
        return "checkpoint  not measured"
    size = amount_of_bytes(measured.checkpoint_bytes)
    return f"checkpoint  {duration(measured.checkpoint_seconds)} for {size}"


def _table(found: Forecast) -> list[str]:
    priced = found.alone.money > 0
    header = (
        f"{'machines':>8}  {'exchange':<18}{'a step':>9}  {'90 % within':<19}{'waiting':>8}"
    )
    header += f"{'hours':>9}" + f"{'money':>10}" * priced + f"{'speed':>8}"
    rows = [found.alone, *found.fewer] if found.measured.machines > 1 else []
    lines = [header]
    for way in (*rows, *found.ways):
        mark = "  configured" if way is found.chosen and len(found.ways) > 1 else ""
        lines.append(_row(way, priced=priced) + mark)
    if found.measured.job.updates and any(way.exchange.local for way in found.ways):
        lines.append(
            "waiting, hours and speed are those of the whole run: machines that go apart come "
            "together before every evaluation and checkpoint"
        )
    first = min(found.measured.job.warmup_steps, found.measured.job.updates)
    # Where it is configured, a note says more.
    others = [way.exchange for way in found.ways if way is not found.chosen]
    for exchange in others if first else ():
        if exchange.low_rank:
            lines.append(
                f"{exchange.name} makes the first {first:,} updates as {DEFAULT_STRATEGY} "
                "does; its step is one of those after them"
            )
    if not found.measured.job.updates:
        lines.append("hours: unknown, since nothing limits the number of updates")
    return lines


def _row(way: Scenario, *, priced: bool) -> str:
    between = f"{duration(way.seconds.low)} – {duration(way.seconds.high)}"
    money = f"{way.money:>10,.2f}" if priced else ""
    hours = f"{way.hours:>9,.2f}" if way.course.updates else f"{'unknown':>9}"
    name = way.exchange.name if way.exchange.card_bytes else "none"
    return (
        f"{way.machines:>8}  {name:<18}{duration(way.seconds.middle):>9}  {between:<19}"
        f"{way.waiting:>8.0%}{hours}{money}{way.speedup:>8.2f}"
    )


def _advice(found: Forecast) -> str:
    way = found.advised
    if way.machines < found.measured.machines:
        machines = "one machine" if way.machines == 1 else f"{way.machines} machines"
        how = "" if way.machines == 1 else f", exchange with {way.exchange.name}"
        return f"advice: train on {machines}, {', '.join(way.hosts)}{how}"
    if way is found.chosen:
        return "advice: train as configured"
    return f"advice: exchange with {way.exchange.name}, {way.speedup:.2f} times one machine"


def _mbit(rate: float) -> str:
    return f"{rate * 8e-6:,.0f} Mbit/s"


def _count(number: int, name: str, plural: str = "s") -> str:
    return f"{number} {name}{plural if number != 1 else ''}"
