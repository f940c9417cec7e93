"""`unisono train`: train alone, or as one of the processes torchrun started."""

import sys
from contextlib import closing
from pathlib import Path

import click

from unisono.cli.options import config_argument, set_option
from unisono.config.load import load_settings
from unisono.exit_codes import PREEMPTED as PREEMPTED


@click.command()
@config_argument
@set_option
def train(config: Path, overrides: tuple[str, ...]) -> None:
    """Train as CONFIG says; an unfinished run in the same directory is continued.

    Ctrl-C or SIGTERM finishes the step, saves and exits with code 75, a second one at once;
    SIGUSR1 saves and goes on. Code 76: another process was lost, or a section took longer
    than its limit; the same command goes on from the last checkpoint.
    """
    settings = load_settings(config, overrides)
    from unisono.check.auto_strategy import settle_strategy
    from unisono.cli.pages.progress import Screen
    from unisono.live.live_diagnosis import LiveDiagnosis
    from unisono.records.events import Ended
    from unisono.train.job import run_training

    reason = ""
    with Screen(settings) as screen, closing(LiveDiagnosis(Path(settings.run))) as onlooker:
        for event in run_training(settings, screen.tell, settle_strategy):
            screen.show(event)
            for found in onlooker.saw(event):
                screen.show(found)
            if isinstance(event, Ended):
                reason = event.reason
        for found in onlooker.finish():
            screen.show(found)
    if reason == "signal":
        sys.exit(PREEMPTED)
