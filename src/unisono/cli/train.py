"""`unisono train`: train alone, or as one of the processes that torchrun started."""

import os
import sys
from contextlib import closing
from pathlib import Path

import click

from unisono.cli.options import config_argument, set_option
from unisono.config.load import load_settings
from unisono.exit_codes import PREEMPTED as PREEMPTED
from unisono.nvidia import keep_gpu_memory_whole


@click.command()
@config_argument
@set_option
def train(config: Path, overrides: tuple[str, ...]) -> None:
    """Train as CONFIG says, or continue the unfinished run in its directory.

    On Ctrl-C, SIGTERM or SIGHUP it finishes the step, saves and exits with code 75; on a
    second one it exits at once. On SIGUSR1 it saves and goes on. Exit code 76 means that
    another process was lost, or that a section took longer than its limit; the same command
    continues from the last checkpoint.
    """
    settings = load_settings(config, overrides)
    keep_gpu_memory_whole(os.environ)
    from unisono.check.auto_strategy import settle_strategy
    from unisono.cli.pages.progress import Screen
    from unisono.live.live_diagnosis import LiveDiagnosis
    from unisono.records.events import Ended
    from unisono.train.job import run_training

    reason = ""
    with Screen(settings) as screen, closing(LiveDiagnosis(Path(settings.run))) as diagnosis:
        for event in run_training(settings, screen.tell, settle_strategy):
            screen.show(event)
            for found in diagnosis.saw(event):
                screen.show(found)
            if isinstance(event, Ended):
                reason = event.reason
        for found in diagnosis.finish():
            screen.show(found)
    if reason == "signal":
        sys.exit(PREEMPTED)
