"""`unisono simulate`: what a run would take on machines one does not have."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from unisono.atomic import write_text
from unisono.check.plot import plot_of
from unisono.check.simulate import DOUBT, Line, Outlook, SimulatedJob, in_doubt, outlooks
from unisono.cli.options import Number, PathType
from unisono.cli.pages.simulate import machine_in_words, page_of
from unisono.cost_model.devices import device_called
from unisono.cost_model.exchange import Link, nominal_link
from unisono.errors import ConfigError
from unisono.models.settings import PRESETS, TransformerSettings
from unisono.units import BITS, amount

FORMAT = 1
MOST_MACHINES = 1024
ABOVE_ZERO = Number(0, min_open=True)


@click.command()
@click.option("--model", default="base", show_default=True, help="A preset of `[model]`.")
@click.option("--vocabulary", default=32000, show_default=True, type=click.IntRange(1))
@click.option("--gpu", default="V100", show_default=True, help="Its name.")
@click.option("--tflops", type=ABOVE_ZERO, help="Reached, each GPU; --gpu is not looked up.")
@click.option("--precision", default="fp32", type=click.Choice(["fp32", "bf16", "fp16"]))
@click.option("--gpus-per-node", default=1, show_default=True, type=click.IntRange(1, 64))
@click.option("--nodes", default="1,2,4", show_default=True, help="How many machines.")
@click.option("--link", default="1gbit", show_default=True, help="Between machines.")
@click.option("--latency", default="100us", show_default=True, help="Of that link.")
@click.option("--tokens-per-update", default=32768, show_default=True, type=click.IntRange(1))
@click.option(
    "--length",
    default=28.0,
    show_default=True,
    type=ABOVE_ZERO,
    help="Pieces a sentence, with padding if there is much.",
)
@click.option("--steps", default=100_000, show_default=True, type=click.IntRange(1))
@click.option(
    "--validate-every",
    default=4000,
    show_default=True,
    metavar="STEPS",
    type=click.IntRange(0),
    help="Machines that go apart meet for it; 0 is never.",
)
@click.option(
    "--save-every",
    default=2000,
    show_default=True,
    metavar="STEPS",
    type=click.IntRange(0),
    help="Likewise for checkpoints.",
)
@click.option("--price", default=0.0, type=Number(0), help="Of a machine's hour.")
@click.option(
    "--plot", metavar="FILE", type=PathType, help="Draw speed and hours there, as SVG."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def simulate(plot: Path | None, as_json: bool, **options: Any) -> None:
    """Say on paper what one machine and more of them make of a run: time, waiting, money.

    Nothing is measured: rates are those of data sheets and of links as they are sold. What
    evaluations and checkpoints compute is left out. `unisono check` measures the machines you
    have.
    """
    if plot:
        _check_place(plot)
    job, nodes = _job(options), _numbers(options["nodes"])
    asked = job, nodes, options["gpus_per_node"], _link(options)
    found, doubtful = outlooks(*asked), in_doubt(*asked)
    print(
        _as_json(job, found, doubtful, {**options, "nodes": nodes})
        if as_json
        else page_of(job, found, doubtful, options)
    )
    if plot:
        title = f"{options['model']}, {machine_in_words(options)}, link {options['link']}"
        write_text(plot, plot_of(found, title))
        print(f"wrote {plot}", file=sys.stderr)


def _job(options: dict[str, Any]) -> SimulatedJob:
    if options["model"] not in PRESETS:
        raise ConfigError(
            f"no preset is called {options['model']}",
            where="--model",
            fix=f"choose one of {', '.join(PRESETS)}",
        )
    tflops = options["tflops"]
    device = None if tflops else device_called(options["gpu"])
    return SimulatedJob(
        model=TransformerSettings(**PRESETS[options["model"]]),
        vocabulary=options["vocabulary"],
        tokens_per_update=options["tokens_per_update"],
        length=options["length"],
        flops_per_second=device.rate(options["precision"]) if device else tflops * 1e12,
        updates=options["steps"],
        price=options["price"],
        evaluation_every=options["validate_every"],
        checkpoint_every=options["save_every"],
    )


def _link(options: dict[str, Any]) -> Link:
    return nominal_link(
        amount(options["link"], BITS, "--link", '"100mbit" or "10gbit"'),
        amount(options["latency"], {"us": 1e-6, "ms": 1e-3}, "--latency", '"100us"'),
    )


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= MOST_MACHINES for part in parts):
        raise ConfigError(
            f'"{text}" is not a list of numbers from 1 to {MOST_MACHINES}',
            where="--nodes",
            fix="write --nodes 1,2,4",
        )
    return sorted({int(part) for part in parts})


def _check_place(plot: Path) -> None:
    if not plot.parent.is_dir() or plot.is_dir():
        raise ConfigError(
            f"{plot} cannot be written",
            where="--plot",
            fix="name a file in a directory that is there",
        )


def _as_json(
    job: SimulatedJob,
    found: Sequence[Outlook],
    doubtful: Sequence[Sequence[Outlook]],
    inputs: dict[str, Any],
) -> str:
    return json.dumps(
        {
            "format": FORMAT,
            "inputs": inputs,
            "parameters": job.parameters,
            "tflops_reached": job.flops_per_second / 1e12,
            "doubt": DOUBT,
            "nodes": [_plain(*three) for three in zip(found, *doubtful, strict=True)],
        }
    )


def _plain(outlook: Outlook, slower: Outlook, faster: Outlook) -> dict[str, Any]:
    """Return an outlook for programs, with ranges from faster devices to slower ones."""
    return {
        "nodes": outlook.nodes,
        "advised": outlook.advised.exchange.name,
        "advised_if_slower": slower.advised.exchange.name,
        "advised_if_faster": faster.advised.exchange.name,
        "advised_nodes": outlook.fewer or outlook.nodes,
        "ways": [
            {**_way(line), "step_seconds_range": [fast.step.seconds, slow.step.seconds]}
            for line, slow, fast in zip(outlook.lines, slower.lines, faster.lines, strict=True)
        ],
    }


def _way(line: Line) -> dict[str, Any]:
    return {
        "exchange": line.exchange.name,
        "exact": line.exchange.exact,
        "bytes_per_exchange": round(line.exchange.card_bytes),
        "step_seconds": line.step.seconds,
        "update_seconds": line.bill.step.seconds,
        "waiting": line.bill.step.waiting,
        "meetings": line.course.meetings,
        "meeting_seconds": line.course.meeting_seconds,
        "hours": line.bill.hours,
        "money": line.bill.money if line.bill.price else None,
        "speedup": line.speedup,
        "stop": line.warning,
    }
