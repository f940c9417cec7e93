"""`unisono simulate`: forecast a run on machines that you do not have."""

import sys
from pathlib import Path
from typing import Any

import click

from unisono.atomic import write_text
from unisono.check.page import simulation_json, simulation_page
from unisono.check.plot import plot_of
from unisono.check.simulate import SimulatedJob, simulate_run
from unisono.cli.options import Number, PathType
from unisono.cost_model.devices import device_called
from unisono.cost_model.exchange import Link, nominal_link
from unisono.errors import ConfigError
from unisono.models.memory import (
    checkpoint_copy_bytes,
    even_tokens,
    largest_tokens,
    tokens_for,
    training_bytes,
)
from unisono.models.settings import PRESETS, TransformerSettings
from unisono.units import BIT_UNITS, amount

MOST_MACHINES = 1024
ABOVE_ZERO = Number(0, min_open=True)


@click.command()
@click.option("--model", default="base", show_default=True, help="A preset, as in `[model]`.")
@click.option(
    "--vocabulary",
    default=32000,
    show_default=True,
    type=click.IntRange(1),
    help="Subwords in the vocabulary.",
)
@click.option("--gpu", default="V100", show_default=True, help="Name of the GPU.")
@click.option(
    "--tflops", type=ABOVE_ZERO, help="TFLOP/s that each GPU reaches, instead of --gpu."
)
@click.option(
    "--precision",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "fp32", "tf32", "bf16", "fp16"]),
    help="Precision of the arithmetic; auto is the fastest of the GPU, as `train.precision`.",
)
@click.option(
    "--gpus-per-node",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    help="GPUs in each machine.",
)
@click.option(
    "--nodes", default="1,2,4", show_default=True, help="Numbers of machines to compare."
)
@click.option(
    "--link",
    default="1gbit",
    show_default=True,
    help="Nominal rate of the network between machines.",
)
@click.option("--latency", default="100us", show_default=True, help="Latency of the network.")
@click.option(
    "--tokens-per-update",
    default=32768,
    show_default=True,
    type=click.IntRange(1),
    help="Tokens in each update, as `batching.tokens_per_update`.",
)
@click.option(
    "--tokens-per-machine",
    default=0,
    metavar="N",
    type=click.IntRange(0),
    help="Let updates grow: N tokens for each machine, instead of --tokens-per-update.",
)
@click.option(
    "--length",
    default=28.0,
    show_default=True,
    type=ABOVE_ZERO,
    help="Mean number of subwords in a sentence, including padding.",
)
@click.option(
    "--steps",
    default=100_000,
    show_default=True,
    type=click.IntRange(1),
    help="Updates in the whole run.",
)
@click.option(
    "--validate-every",
    default=4000,
    show_default=True,
    metavar="STEPS",
    type=click.IntRange(0),
    help="Updates between validations; 0 means never.",
)
@click.option(
    "--save-every",
    default=2000,
    show_default=True,
    metavar="STEPS",
    type=click.IntRange(0),
    help="Updates between checkpoints; 0 means never.",
)
@click.option("--price", default=0.0, type=Number(0), help="Price of one machine for one hour.")
@click.option(
    "--plot", metavar="FILE", type=PathType, help="Draw speed and hours to this SVG file."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def simulate(plot: Path | None, as_json: bool, **options: Any) -> None:
    """Forecast a run on one machine and on several: time, waiting, cost.

    Nothing is measured: rates come from data sheets and from the nominal rate of the network.
    The time that evaluations and checkpoints compute is left out. `unisono check` measures the
    machines that you have.
    """
    if plot:
        _check_place(plot)
    job, nodes = _job(options), _numbers(options["nodes"])
    made = simulate_run(job, nodes, options["gpus_per_node"], _link(options))
    if as_json:
        print(simulation_json(made, {**options, "nodes": nodes}))
    else:
        print(simulation_page(made, _heading(job, options), given=bool(options["tflops"])))
    if plot:
        title = f"{options['model']}, {_machine(options)}, link {options['link']}"
        write_text(plot, plot_of(made.found.by_machines, title))
        print(f"wrote {plot}", file=sys.stderr)


def _heading(job: SimulatedJob, options: dict[str, Any]) -> list[str]:
    source = "as given" if options["tflops"] else "assumed"
    rate = f"{job.flops_per_second / 1e12:.1f} TFLOP/s reached ({source})"
    precision = options["precision"]
    if precision == "auto" and not options["tflops"]:
        precision = device_called(options["gpu"]).fastest
    memory = [] if options["tflops"] else [_memory(job, options, precision)]
    return [
        f"{options['model']}: {job.parameters:,} parameters, {job.tokens_per_update:,} tokens "
        f"an update{' and machine' * bool(job.tokens_per_machine)}, {job.updates:,} updates"
        f"{' of one machine' * bool(job.tokens_per_machine)}",
        f"{_machine(options)}, {rate} each, {precision}; link {options['link']}",
        *memory,
    ]


def _memory(job: SimulatedJob, options: dict[str, Any], precision: str) -> str:
    """Return what a GPU of one machine holds, with the micro-batches that a run chooses."""
    device, processes = device_called(options["gpu"]), options["gpus_per_node"]
    most = largest_tokens(job.model, job.vocabulary, precision, device.memory)
    fit = tokens_for(job.model, job.vocabulary, precision, device.memory, processes)
    tokens = even_tokens(fit, job.tokens_per_update, processes, round(job.length))
    used = training_bytes(job.model, job.vocabulary, tokens, precision)
    copy = checkpoint_copy_bytes(job.model, job.vocabulary)
    return (
        f"memory: {options['model']}, {tokens:,} tokens at once, "
        f"{precision}: {used / 1e9:.1f} of {device.memory / 1e9:.0f} GB; up to {most:,} fit; "
        f"checkpoints take {copy / 1e9:.1f} GB of host memory on one machine"
    )


def _machine(options: dict[str, Any]) -> str:
    device = f"{options['tflops']:g} TFLOP/s" if options["tflops"] else options["gpu"]
    return f"{options['gpus_per_node']} × {device} a machine"


def _job(options: dict[str, Any]) -> SimulatedJob:
    if options["model"] not in PRESETS:
        raise ConfigError(
            f"no preset is called {options['model']}",
            where="--model",
            fix=f"choose one of {', '.join(PRESETS)}",
        )
    tflops, model = options["tflops"], TransformerSettings(**PRESETS[options["model"]])
    device = None if tflops else device_called(options["gpu"])
    rate = device.rate(options["precision"], model.width) if device else tflops * 1e12
    return SimulatedJob(
        model=model,
        vocabulary=options["vocabulary"],
        tokens_per_update=options["tokens_per_machine"] or options["tokens_per_update"],
        tokens_per_machine=options["tokens_per_machine"],
        length=options["length"],
        flops_per_second=rate,
        memory_rate=device.bandwidth if device else 0.0,
        updates=options["steps"],
        price=options["price"],
        evaluation_every=options["validate_every"],
        checkpoint_every=options["save_every"],
    )


def _link(options: dict[str, Any]) -> Link:
    return nominal_link(
        amount(options["link"], BIT_UNITS, "--link", '"100mbit" or "10gbit"'),
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
            fix="name a file in a directory that exists",
        )
