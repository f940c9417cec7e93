"""`unisono train`: train alone, or as one of the processes torchrun started."""

import sys
from pathlib import Path

import click

from unisono.cli.options import settings_from, training_options

PREEMPTED = 75  # stopped by a signal, and everything is saved


@click.command()
@training_options
def train(config: Path, overrides: tuple[str, ...], run: str) -> None:
    """Train as CONFIG says; an unfinished run in the same directory is continued.

    Ctrl-C or SIGTERM finishes the step, saves and exits with code 75; SIGUSR1 saves and
    goes on.
    """
    settings = settings_from(config, overrides, run)
    from unisono.cli.screen import Screen
    from unisono.records.events import Ended
    from unisono.train.job import run_training

    reason = ""
    with Screen(settings) as screen:
        for event in run_training(settings):
            screen.show(event)
            if isinstance(event, Ended):
                reason = event.reason
    if reason == "signal":
        sys.exit(PREEMPTED)
