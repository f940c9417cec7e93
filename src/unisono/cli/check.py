"""`unisono check`: measure the machines for a minute, and say what a run will take on them."""

import json
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from unisono.cli.launch import run_command
from unisono.cli.launch_hosts import launch_on_hosts
from unisono.cli.launch_options import host_options
from unisono.cli.options import Number, config_argument, set_option
from unisono.config.load import load_settings
from unisono.exit_codes import DONE, FAILED
from unisono.launch.local import plan_local
from unisono.launch.plan import Training
from unisono.physics.forecast import Forecast, forecast
from unisono.physics.measured import Measured, Process
from unisono.physics.way import Way
from unisono.printable import printable
from unisono.units import amount_of_bytes, duration

FORMAT = 1


@click.command()
@config_argument
@set_option
@click.option(
    "--workers",
    default=0,
    metavar="N",
    type=click.IntRange(0),
    help="Processes on each machine; 0 is this one process.",
)
@click.option(
    "--seconds",
    default=35.0,
    show_default=True,
    type=Number(0, min_open=True),
    help="How long to measure.",
)
@click.option("--price", default=0.0, type=Number(0), help="Of a machine's hour.")
@click.option("--force", is_flag=True, help="Exit with 0 even if it should not be trained.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@host_options
def check(
    config: Path,
    overrides: tuple[str, ...],
    workers: int,
    seconds: float,
    price: float,
    force: bool,
    as_json: bool,
    **where: Any,
) -> None:
    """Say what the run of CONFIG will take: seconds a step, hours, money, and why.

    The real work and the real network are measured for a moment, on the machines that will
    train: alone, with --workers here, on other machines with --hosts, or under torchrun,
    mpirun or srun as `train`. If one machine alone were faster, or if much of the time would
    be spent waiting for the network, the exit code is 1: `unisono check … && unisono launch …`.
    """
    settings = load_settings(config, overrides)
    if not (workers or where["hosts"]):
        sys.exit(_here(settings, seconds, price, force=force, as_json=as_json))
    words = [f"--seconds={seconds:g}", f"--price={price:g}"]
    words += ["--force"] * force + ["--json"] * as_json
    training = Training(
        config, overrides, settings, workers or 1, verb="check", words=tuple(words)
    )
    if where["hosts"]:
        sys.exit(launch_on_hosts(training, dry_run=False, check=False, **where))
    sys.exit(run_command(plan_local(training.arguments, workers)))


def _here(settings: Any, seconds: float, price: float, *, force: bool, as_json: bool) -> int:
    """Measure as one of the processes that were started, and show what was found."""
    from unisono.train.rehearsal import run_rehearsal

    measured, world = run_rehearsal(settings, seconds, _talk)
    found = forecast(measured, price)
    if world.leads:
        print(_as_json(found) if as_json else _page(found), flush=True)
    return FAILED if found.stop and not force else DONE


def _talk(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _page(found: Forecast) -> str:
    lines = [*_about_machines(found.measured), "", *_about_work(found), "", *_table(found)]
    lines += [f"note: {note}" for note in found.notes]
    if found.stop:
        lines += ["", f"STOP: {found.stop}"]
    lines += ["", _advice(found)]
    return "\n".join(printable(line) for line in lines)


def _about_machines(measured: Measured) -> list[str]:
    job = measured.job
    machines = _count(measured.machines, "machine")
    full = all(len(ranks) == measured.workers for ranks in measured.members)
    each = f"{'' if full else 'up to '}{_count(measured.workers, 'process', 'es')} each"
    lines = [
        f"{machines} with {each}; "
        f"{job.parameters:,} parameters, {job.tokens_per_update:,.0f} target tokens an update"
    ]
    firsts = [process for process in measured.processes if process.local_rank == 0]
    lines += [f"  {_machine(measured, process)}" for process in firsts]
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


def _machine(measured: Measured, process: Process) -> str:
    shared = measured.workers if process.device == "cpu" else 1
    link = ""
    if process.interface:
        nominal = f" (sold as {process.nominal_mbit:,} Mbit/s)" * (process.nominal_mbit > 0)
        link = f", {process.interface}{nominal}"
    return (
        f"{process.host}: {process.device}, {_count(process.cores, 'core')}, "
        f"memory {amount_of_bytes(process.peak_bytes * shared)} of "
        f"{amount_of_bytes(process.memory_bytes)}, "
        f"disk {amount_of_bytes(process.free_disk_bytes)} free{link}"
    )


def _about_work(found: Forecast) -> list[str]:
    work, measured = found.work, found.measured
    computing = work.forward + work.backward + work.optimizer
    lines = [
        f"computing   {duration(computing)} an update: forward {duration(work.forward)}, "
        f"backward {duration(work.backward)}, optimizer {duration(work.optimizer)}; "
        f"besides {duration(work.other)}",
        f"data        {duration(measured.loader_seconds)} an update, prepared meanwhile",
        f"evaluation  {duration(measured.evaluation_seconds)}, of which "
        f"{duration(measured.translation_seconds)} for translations",
        f"checkpoint  {duration(measured.checkpoint_seconds)} for "
        f"{amount_of_bytes(measured.checkpoint_bytes)}",
    ]
    exact = found.ways[0]
    if exact.exchange.card_bytes:
        lines.append(
            f"exchange    {amount_of_bytes(exact.exchange.card_bytes)} an update through each "
            f"card, at {_mbit(found.link.bytes_per_second)} through the process group, "
            f"{found.chosen.bucket_mb:g} MB at a time"
        )
    return lines


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
    if found.measured.job.updates and any(way.exchange.behind for way in found.ways):
        lines.append(
            "waiting, hours and speed are those of the whole run: machines that go apart come "
            "together before every evaluation and checkpoint"
        )
    if not found.measured.job.updates:
        lines.append("hours: unknown, since nothing limits the number of updates")
    return lines


def _row(way: Way, *, priced: bool) -> str:
    between = f"{duration(way.seconds.low)} – {duration(way.seconds.high)}"
    money = f"{way.money:>10,.2f}" if priced else ""
    name = way.exchange.name if way.exchange.card_bytes else "none"
    return (
        f"{way.machines:>8}  {name:<18}{duration(way.seconds.middle):>9}  {between:<19}"
        f"{way.waiting:>8.0%}{way.hours:>9,.2f}{money}{way.speedup:>8.2f}"
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


def _as_json(found: Forecast) -> str:
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


def _plain(way: Way) -> dict[str, Any]:
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
        "hours": way.hours,
        "money": way.money,
        "speedup": way.speedup,
        "stop": way.stop,
    }


def _mbit(rate: float) -> str:
    return f"{rate * 8e-6:,.0f} Mbit/s"


def _count(number: int, name: str, plural: str = "s") -> str:
    return f"{number} {name}{plural if number != 1 else ''}"
