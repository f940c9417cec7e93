"""`unisono launch`: start training on several processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click

from unisono.cli.options import config_argument, set_option
from unisono.cli.train import PREEMPTED
from unisono.config.load import load_settings
from unisono.corpus.reader import open_corpus
from unisono.launch.local import plan_local
from unisono.launch.plan import Command
from unisono.records.layout import RunDirectory
from unisono.records.view import read_run


@click.command()
@config_argument
@set_option
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1))
@click.option("--dry-run", is_flag=True, help="Show what would be started.")
def launch(config: Path, overrides: tuple[str, ...], workers: int, dry_run: bool) -> None:
    """Train as CONFIG says with several processes on this machine, under torchrun."""
    settings = load_settings(config, overrides)
    sets = [word for override in overrides for word in ("--set", override)]
    command = plan_local(["train", str(config), *sets], workers)
    if dry_run:
        print(command.as_shell())
        return
    open_corpus(Path(settings.corpus.directory))
    code = run_command(command)
    if code and _was_preempted(Path(settings.run)):
        code = PREEMPTED
    sys.exit(code)


def run_command(command: Command) -> int:
    """Run `command` to its end and return its exit code; Ctrl-C is for it, not for us."""
    # In a group of its own: a terminal's Ctrl-C then reaches it once, through us.
    environment = {**os.environ, **command.variables}
    with subprocess.Popen(command.argv, env=environment, process_group=0) as process:
        before = {
            number: signal.signal(number, lambda number, _: process.send_signal(number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            return process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _was_preempted(run: Path) -> bool:
    # torchrun exits with 1 even after a perfect save; the run itself knows better.
    if not RunDirectory(run).config.is_file():
        return False
    view = read_run(run)
    ended = [end for end in view.ends if end.time >= view.last_starts[0].time]
    return bool(ended) and ended[-1].reason == "signal"
