"""`unisono simulate`: what a run would take on machines one does not have."""

import json
from typing import Any

import click

from unisono.check.paper import Job, Line, Outlook, outlooks
from unisono.errors import ConfigError
from unisono.models.settings import PRESETS, TransformerSettings
from unisono.physics.devices import device_called
from unisono.physics.link import nominal_link
from unisono.units import BITS, amount, amount_of_bytes, duration

BAR = 40


@click.command()
@click.option("--model", default="base", show_default=True, help="A preset of `[model]`.")
@click.option("--vocabulary", default=32000, show_default=True, type=click.IntRange(1))
@click.option("--gpu", default="V100", show_default=True, help="Its name.")
@click.option("--tflops", type=click.FloatRange(0, min_open=True), help="Reached, each GPU.")
@click.option("--precision", default="fp32", type=click.Choice(["fp32", "bf16", "fp16"]))
@click.option("--gpus-per-node", default=1, show_default=True, type=click.IntRange(1))
@click.option("--nodes", default="1,2,4", show_default=True, help="How many machines.")
@click.option("--link", default="1gbit", show_default=True, help="Between machines.")
@click.option("--latency", default="100us", show_default=True, help="Of that link.")
@click.option("--tokens-per-update", default=32768, show_default=True)
@click.option("--length", default=28.0, show_default=True, help="Pieces a sentence.")
@click.option("--steps", default=100_000, show_default=True, type=click.IntRange(1))
@click.option("--price", default=0.0, help="Of a machine's hour.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def simulate(**options: Any) -> None:
    """Say on paper what each number of machines makes of a run: time, waiting, money.

    Nothing is measured: rates are those of data sheets and of links as they are sold.
    `unisono check` measures the machines you have.
    """
    found = outlooks(
        job := _job(options),
        _numbers(options["nodes"]),
        options["gpus_per_node"],
        nominal_link(
            amount(options["link"], BITS, "--link", '"100mbit" or "10gbit"'),
            amount(options["latency"], {"us": 1e-6, "ms": 1e-3}, "--latency", '"100us"'),
        ),
    )
    if options["as_json"]:
        print(json.dumps({"parameters": job.parameters, "nodes": [_plain(o) for o in found]}))
    else:
        _show(job, found, options)


def _job(options: dict[str, Any]) -> Job:
    if options["model"] not in PRESETS:
        raise ConfigError(
            f"no preset is called {options['model']}",
            where="--model",
            fix=f"choose one of {', '.join(PRESETS)}",
        )
    tflops = options["tflops"]
    device = None if tflops else device_called(options["gpu"])
    return Job(
        model=TransformerSettings(**PRESETS[options["model"]]),
        vocabulary=options["vocabulary"],
        tokens_per_update=options["tokens_per_update"],
        length=options["length"],
        flops_per_second=device.rate(options["precision"]) if device else tflops * 1e12,
        updates=options["steps"],
        price=options["price"],
    )


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(
            f'"{text}" is not a list of numbers', where="--nodes", fix="write --nodes 1,2,4"
        )
    return [int(part) for part in parts]


def _show(job: Job, found: list[Outlook], options: dict[str, Any]) -> None:
    device = f"{options['tflops']:g} TFLOP/s" if options["tflops"] else options["gpu"]
    rate = f"{job.flops_per_second / 1e12:.1f} TFLOP/s reached (assumed)"
    print(
        f"{options['model']}: {job.parameters:,} parameters, {job.tokens_per_update:,} tokens "
        f"an update, {job.updates:,} updates\n"
        f"{options['gpus_per_node']} × {device} a machine, {rate} each, "
        f"{options['precision']}; link {options['link']}\n"
    )
    header = f"{'machines':>8}  {'exchange':<18}{'step':>10}{'waiting':>9}{'hours':>9}"
    print(header + (f"{'money':>11}" if job.price else "") + f"{'speed':>9}")
    for outlook in found:
        for line in outlook.lines:
            print(_row(outlook.nodes, line, priced=bool(job.price)))
    print("\nspeed with the exchange that is advised, one machine = 1")
    most = max(outlook.advised.speedup for outlook in found)
    for outlook in found:
        speed, name = outlook.advised.speedup, outlook.advised.exchange.name
        bar = "█" * max(1, round(BAR * speed / most))
        enough = f"; {outlook.fewer} would do" if outlook.fewer else ""
        print(f"{outlook.nodes:>8}  {bar} {speed:.2f}  {name}{enough}")
    for outlook in found:
        if outlook.exact.warning:
            size = amount_of_bytes(outlook.exact.exchange.card_bytes)
            print(f"\nstop: with ddp ({size} an update), {outlook.exact.warning}")


def _row(nodes: int, line: Line, *, priced: bool) -> str:
    bill = line.bill
    money = f"{bill.money:>11,.2f}" if priced else ""
    return (
        f"{nodes:>8}  {line.exchange.name:<18}{duration(bill.step.seconds):>10}"
        f"{bill.step.waiting:>9.0%}{bill.hours:>9,.1f}{money}{line.speedup:>9.2f}"
    )


def _plain(outlook: Outlook) -> dict[str, Any]:
    return {
        "nodes": outlook.nodes,
        "advised": outlook.advised.exchange.name,
        "advised_nodes": outlook.fewer or outlook.nodes,
        "ways": [
            {
                "exchange": line.exchange.name,
                "exact": line.exchange.exact,
                "bytes_per_exchange": round(line.exchange.card_bytes),
                "step_seconds": line.bill.step.seconds,
                "waiting": line.bill.step.waiting,
                "hours": line.bill.hours,
                "money": line.bill.money if line.bill.price else None,
                "speedup": line.speedup,
                "stop": line.warning,
            }
            for line in outlook.lines
        ],
    }
