"""`unisono check`: measure the machines for a minute and forecast the run on them."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from unisono.check.page import json_of, page_of
from unisono.cli.launch import run_command
from unisono.cli.launching.bringing import BringOptions
from unisono.cli.launching.hosts import launch_on_hosts
from unisono.cli.launching.options import bring_options, host_options
from unisono.cli.options import Number, config_argument, set_option, workers_option
from unisono.config.load import load_settings
from unisono.cost_model.forecast import forecast
from unisono.errors import ConfigError
from unisono.exit_codes import DONE, FAILED
from unisono.launch.plan import LaunchedTraining, plan_local
from unisono.launch.slots import workers_here
from unisono.nvidia import keep_gpu_memory_whole


@click.command()
@config_argument
@set_option
@workers_option("Processes on each machine; 0 means this process alone.")
@click.option(
    "--seconds",
    default=35.0,
    show_default=True,
    type=Number(0, min_open=True),
    help="How long to measure.",
)
@click.option(
    "--price",
    type=Number(0),
    help="Price of one machine for one hour; the default is that of [cost] in CONFIG.",
)
@click.option(
    "--force", is_flag=True, help="Exit with 0 even if `check` advises against training."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@host_options
@bring_options
def check(
    config: Path,
    overrides: tuple[str, ...],
    workers: int,
    seconds: float,
    price: float | None,
    force: bool,
    as_json: bool,
    **where: Any,
) -> None:
    """Forecast the run that CONFIG describes: seconds a step, hours, cost, and why.

    It measures the real work and the real network for a minute, on the machines that will
    train: this process alone, --workers here, other machines with --hosts, or all processes
    that torchrun, mpirun or srun start, as for `train`. The exit code is 1 if one machine alone
    would be faster, or if training would mostly wait for the network:
    `unisono check … && unisono launch …`.
    """
    if BringOptions.of(where).sync and not where["hosts"]:
        raise ConfigError(
            "--sync has no effect on this machine", where="--sync", fix="add --hosts"
        )
    settings = load_settings(config, overrides)
    price = settings.cost.per_machine_hour if price is None else price
    if not (workers or where["hosts"]):
        sys.exit(_here(settings, seconds, price, force=force, as_json=as_json))
    options = [f"--seconds={seconds:g}", f"--price={price:g}"]
    options += ["--force"] * force + ["--json"] * as_json
    training = LaunchedTraining(
        config, overrides, settings, workers or 1, verb="check", words=tuple(options)
    )
    if where["hosts"]:
        sys.exit(launch_on_hosts(training, dry_run=False, check=False, **where))
    sys.exit(
        run_command(plan_local(training.arguments, workers_here(workers, settings.device)))
    )


def _here(settings: Any, seconds: float, price: float, *, force: bool, as_json: bool) -> int:
    """Measure as one of the processes that were started, and print the forecast."""
    keep_gpu_memory_whole(os.environ)
    from unisono.check.probe_run import run_probe

    measured, world = run_probe(settings, seconds, _talk)
    found = forecast(measured, price)
    if world.leads:
        print(json_of(found) if as_json else page_of(found), flush=True)
    return FAILED if found.stop and not force else DONE


def _talk(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
