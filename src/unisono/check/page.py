"""A forecast for programs, as JSON, and for a person, as a page: of `check` and `simulate`."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from unisono.check.simulate import DOUBT, Simulation
from unisono.cost_model.forecast import Forecast
from unisono.cost_model.notes import memory_of
from unisono.cost_model.probe_results import ProbeResults, Process
from unisono.cost_model.scenarios import Scenario
from unisono.cost_model.strategies import DEFAULT_STRATEGY
from unisono.printable import printable
from unisono.units import amount_of_bytes, duration

FORMAT = 1
SPEED_BAR_WIDTH = 40


def json_of(found: Forecast) -> str:
    """Return the forecast and all measurements; unknown values are null."""
    measured = msgspec.to_builtins(found.measured)
    return json.dumps({**_plain(found), "notes": found.notes, "measured": measured})


def simulation_json(made: Simulation, inputs: Mapping[str, Any]) -> str:
    """Return a simulated forecast, with ranges from faster devices to slower ones."""
    plain = _plain(made.found)
    others = zip(made.slower.by_machines, made.faster.by_machines, strict=True)
    for some, (slower, faster) in zip(plain["nodes"], others, strict=True):
        some["advised_if_slower"] = slower.best.exchange.name
        some["advised_if_faster"] = faster.best.exchange.name
        ranges = zip(faster.ways, slower.ways, strict=True)
        for way, (least, most) in zip(some["ways"], ranges, strict=True):
            way["step_seconds_range"] = [least.step.seconds, most.step.seconds]
    return json.dumps(
        {
            **plain,
            "inputs": inputs,
            "parameters": made.job.parameters,
            "tflops_reached": made.job.flops_per_second / 1e12,
            "doubt": DOUBT,
            "busy_tokens": made.job.busy_tokens,
        }
    )


def _plain(found: Forecast) -> dict[str, Any]:
    """Return the forecast; `nodes` has every exchange on each number of machines."""
    return {
        "format": FORMAT,
        "stop": found.stop,
        "configured": found.chosen.exchange.name,
        "advised": {
            "machines": found.advised.machines,
            "exchange": found.advised.exchange.name,
        },
        "link_bytes_per_second": found.link.bytes_per_second,
        "ways": [_plain_way(way) for way in found.ways],
        "alone": _plain_way(found.alone),
        "fewer": [_plain_way(way) for way in found.fewer],
        "nodes": [
            {
                "nodes": some.machines,
                "advised": some.best.exchange.name,
                "advised_nodes": found.enough(some) or some.machines,
                "ways": [_plain_way(way) for way in some.ways],
            }
            for some in found.by_machines
        ],
    }


def _plain_way(way: Scenario) -> dict[str, Any]:
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
        "money": way.money or None,
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
            f"{_mbit(measured.pulses[-1])} at the end; the smallest sum over all processes "
            f"takes {duration(measured.latency)}"
        )
    return lines


def _machine(found: Forecast, number: int) -> str:
    measured, ranks = found.measured, found.measured.members[number]
    first = measured.processes[ranks[0]]
    memory = memory_of(measured, ranks, found.strategy)
    link = ""
    if first.interface:
        nominal = f" (nominally {first.nominal_mbit:,} Mbit/s)" * (first.nominal_mbit > 0)
        link = f", {first.interface}{nominal}"
    return (
        f"{measured.machine(number)}: {_count(len(ranks), 'process', 'es')} on "
        f"{_devices([measured.processes[rank] for rank in ranks])}, "
        f"{_count(first.cores, 'core')}, memory {amount_of_bytes(memory.needed)} of "
        f"{amount_of_bytes(memory.there)}, "
        f"disk {amount_of_bytes(first.free_disk_bytes)} free{link}"
    )


def _devices(processes: Sequence[Process]) -> str:
    """Return the names of a machine's devices; its processes share the CPU."""
    counts = Counter(process.device for process in processes)
    names = [name if name == "cpu" else f"{count} x {name}" for name, count in counts.items()]
    return ", ".join(names)


def _about_work(found: Forecast) -> list[str]:
    work, measured = found.work, found.measured
    computing = work.forward + work.backward + work.optimizer
    lines = [
        f"computing   {duration(computing)} an update: forward {duration(work.forward)}, "
        f"backward {duration(work.backward)}, optimizer {duration(work.optimizer)}; "
        f"other {duration(work.other)}",
        f"data        {duration(measured.loader_seconds)} an update, prepared in parallel",
        _about_evaluation(measured),
        _about_checkpoint(measured),
    ]
    exact = found.ways[0]
    if exact.exchange.card_bytes:
        lines.append(
            f"exchange    {amount_of_bytes(exact.exchange.card_bytes)} an update through each "
            f"card, at {_mbit(found.link.bytes_per_second)} through the process group, in "
            f"buckets of {found.chosen.bucket_mb:g} MB"
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
    rows = [found.alone, *found.fewer] if found.measured.machines > 1 else []
    marks = {id(found.chosen): "  configured"} if len(found.ways) > 1 else {}
    lines = table_of([*rows, *found.ways], marks)
    job, others = found.measured.job, [way for way in found.ways if way is not found.chosen]
    if job.updates and any(way.exchange.local for way in found.ways):
        lines.append(
            "waiting, hours and speed are those of the whole run: machines with local updates "
            "exchange all weights before every evaluation and checkpoint"
        )
    first = min(job.warmup_steps, job.updates)
    # Where it is configured, a note says more.
    for name in (way.exchange.name for way in others if first and way.exchange.low_rank):
        lines.append(
            f"{name} makes the first {first:,} updates as {DEFAULT_STRATEGY} does; its step is "
            "one of those after them"
        )
    if not job.updates:
        lines.append("hours: unknown, because nothing limits the number of updates")
    return lines


def table_of(
    ways: Sequence[Scenario], marks: Mapping[int, str], *, interval: bool = True
) -> list[str]:
    """Return a line for each scenario; `marks` are added to some, by their identity."""
    priced = any(way.money > 0 for way in ways)
    # Each column: its name, its least width (below 0: flushed left), and its cells.
    columns = [
        ("machines", 8, [str(way.machines) for way in ways]),
        ("exchange", -18, [_exchange_name(way) for way in ways]),
        ("a step", 10, [duration(way.seconds.middle) for way in ways]),
        ("90 % within", -18 * interval, [_within(way) for way in ways]),
        ("waiting", 9, [f"{way.waiting:.0%}" for way in ways]),
        ("hours", 9, [_hours(way) for way in ways]),
        ("money", 11 * priced, [f"{way.money:,.2f}" for way in ways]),
        ("speed", 8, [f"{way.speedup:.2f}" for way in ways]),
    ]
    shown = [_column(*column) for column in columns if column[1]]
    tails = ["", *(marks.get(id(way), "") for way in ways)]
    return ["".join(cells) + tail for *cells, tail in zip(*shown, tails, strict=True)]


def _column(name: str, least: int, cells: list[str]) -> list[str]:
    """Return the name and all cells with the same width, apart from their neighbours."""
    texts = [name, *cells]
    if least < 0:
        width = max(-least, *(len(text) + 1 for text in texts))
        return [f"  {text:<{width}}" for text in texts]
    width = max(least, *(len(text) + (name != "machines") for text in texts))
    return [f"{text:>{width}}" for text in texts]


def _exchange_name(way: Scenario) -> str:
    return way.exchange.name if way.exchange.card_bytes else "none"


def _within(way: Scenario) -> str:
    return f"{duration(way.seconds.low)} – {duration(way.seconds.high)}"


def _hours(way: Scenario) -> str:
    return f"{way.hours:,.2f}" if way.course.updates else "unknown"


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


def simulation_page(made: Simulation, heading: Sequence[str], *, given: bool) -> str:
    """Return the page of a simulation; the devices' rate is `given`, or else assumed."""
    groups = made.found.by_machines
    ways = [way for some in groups for way in some.ways]
    lines = [*heading, "", *table_of(ways, {}, interval=False)]
    apart = [way for way in ways if way.course.meetings]
    if apart:
        lines.append(
            "waiting, hours and speed are those of the whole run: with "
            f"{apart[0].exchange.strategy} machines exchange all weights "
            f"{_count(apart[0].course.meetings, 'time')}"
        )
    lines += ["", *_bars(made.found), ""]
    for exact in (some.exact for some in groups if some.exact.stop):
        size = amount_of_bytes(exact.exchange.card_bytes)
        lines.append(f"stop: with {exact.exchange.name} ({size} an update), {exact.stop}")
    lines += [f"note: {note}" for note in _about_sizes(made)]
    return "\n".join([*lines, *_doubts(made, given=given)])


def _about_sizes(made: Simulation) -> list[str]:
    """Say where devices have too little to do, and what updates that grow leave out."""
    notes = []
    for machines, tokens in made.starved.items():
        notes.append(
            f"on {_count(machines, 'machine')} each device gets {tokens:,.0f} tokens an update "
            f"and needs about {made.job.busy_tokens:,.0f} to be busy: it takes "
            f"{duration(made.job.launch_seconds)} to launch its kernels (estimated)"
        )
    if notes and not made.job.tokens_per_machine:
        notes.append("--tokens-per-machine lets updates grow with the machines")
    if made.job.tokens_per_machine:
        notes.append(
            "speed is in tokens a second, hours are for as many tokens as one machine sees; "
            "larger updates may need more of them for the same loss"
        )
    return notes


def _bars(found: Forecast) -> list[str]:
    most = max(some.best.speedup for some in found.by_machines)
    lines = ["speed with the advised exchange, one machine = 1"]
    for some in found.by_machines:
        speed, name, enough = some.best.speedup, some.best.exchange.name, found.enough(some)
        bar = "█" * max(1, round(SPEED_BAR_WIDTH * speed / most))
        would_do = f"; {enough} would do" * (enough > 0)
        lines.append(f"{some.machines:>8}  {bar} {speed:.2f}  {name}{would_do}")
    return lines


def _doubts(made: Simulation, *, given: bool) -> list[str]:
    """Say how the advice would change if the devices were slower or faster."""
    lines = []
    for word, other in (("slower", made.slower), ("faster", made.faster)):
        changes = _changes(made.found, other)
        if changes:
            lines.append(f"if devices computed {DOUBT:.0%} {word}: {'; '.join(changes)}")
    why = "" if given else "how fast devices compute is assumed, not measured: "
    if not lines:
        return [f"{why}{DOUBT:.0%} slower or faster would change no advice and no warning"]
    return [f"{why}this depends on it", *lines]


def _changes(found: Forecast, other: Forecast) -> list[str]:
    changes = []
    for some, same in zip(found.by_machines, other.by_machines, strict=True):
        machines = "one machine" if some.machines == 1 else f"{some.machines} machines"
        if some.best.kind != same.best.kind:
            changes.append(f"{same.best.exchange.name} for {machines}")
        enough = other.enough(same)
        if found.enough(some) != enough:
            would = f"{enough} would do instead of" if enough else "no fewer would do than"
            changes.append(f"{would} {machines}")
        if bool(some.exact.stop) != bool(same.exact.stop):
            no = "" if same.exact.stop else "no "
            changes.append(f"{no}stop for {some.exact.exchange.name} on {machines}")
    return changes
