"""`unisono launch`: start training on several processes, here or on other machines."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from unisono.cli.launching.hosts import launch_on_hosts
from unisono.cli.launching.options import mode_of, where_options
from unisono.cli.launching.targets import launch_on_kubernetes, launch_on_slurm
from unisono.cli.options import config_argument, set_option, workers_option
from unisono.cli.pages.progress import forwarding_signals
from unisono.config.load import load_settings
from unisono.corpus.reader import open_corpus
from unisono.exit_codes import PREEMPTED
from unisono.launch.plan import Command, LaunchedTraining, Restarts, plan_local
from unisono.launch.slots import workers_here
from unisono.parent_process import parent_variables
from unisono.records.status import was_preempted

TARGETS: dict[str, Callable[..., int]] = {
    "hosts": launch_on_hosts,
    "slurm": launch_on_slurm,
    "kubernetes": launch_on_kubernetes,
}


@click.command()
@config_argument
@set_option
@workers_option("Processes on each machine; default: one for each GPU, or 2 without GPUs.")
@where_options
@click.option("--dry-run", is_flag=True, help="Show what would be started and written.")
@click.pass_context
def launch(
    context: click.Context,
    /,
    config: Path,
    overrides: tuple[str, ...],
    workers: int,
    dry_run: bool,
    restarts: int,
    fewest: int,
    **where: Any,
) -> None:
    """Train as CONFIG says with several processes, under torchrun.

    On this machine, or on others: --hosts reaches them over your own ssh and first checks
    whether all are ready; --slurm submits a job; --kubernetes writes a manifest.
    """
    mode = mode_of(context)
    settings = load_settings(config, overrides)
    again = Restarts(restarts, settings.run, fewest)
    training = LaunchedTraining(config, overrides, settings, workers, again)
    if mode:
        sys.exit(TARGETS[mode](training, dry_run=dry_run, **where))
    here = workers_here(workers, settings.device)
    command = plan_local(training.arguments, here, again)
    if dry_run:
        print(command.as_shell())
        return
    open_corpus(Path(settings.corpus.directory))
    began = time.time()
    code = run_command(command)
    if code and was_preempted(Path(settings.run), since=began):
        code = PREEMPTED
    sys.exit(code)


def run_command(command: Command) -> int:
    """Run `command` to its end and return its exit code; forward Ctrl-C to it."""
    # In a process group of its own: Ctrl-C at a terminal then reaches it once, through us.
    environment = {**os.environ, **parent_variables(), **command.variables}
    process = subprocess.Popen(command.argv, env=environment, process_group=0)
    with process, forwarding_signals(process.send_signal):
        return process.wait()
