"""`unisono selftest-part`: what `selftest` starts, alone or on all machines. Not for people."""

import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from unisono.cli.launch import run_command
from unisono.cli.launching.hosts import launch_on_hosts
from unisono.cli.launching.options import host_options
from unisono.cli.options import PathType, set_option
from unisono.config.load import load_settings
from unisono.launch.plan import LaunchedTraining, plan_local
from unisono.launch.slots import workers_here
from unisono.nvidia import keep_gpu_memory_whole
from unisono.selftest.trial import make_trial, remove_trial


@click.command(name="selftest-part", hidden=True)
@click.argument("config", type=PathType)
@set_option
@click.option("--part", default="group")
@click.option("--workers", default=-1, type=int)
@click.option("--kill-at", default=0, type=int)
@click.option("--device", default="auto")
@host_options
def selftest_part(
    config: Path,
    overrides: tuple[str, ...],
    part: str,
    workers: int,
    kill_at: int,
    device: str,
    **where: Any,
) -> None:
    """Do one part of the self-test, or start it on several processes."""
    if part == "make":
        make_trial(config.parent, device)
        return
    if part == "remove":
        remove_trial(config.parent)
        return
    settings = load_settings(config, overrides)
    if workers < 0 and not where["hosts"]:
        _work(settings, part, kill_at)
        return
    words = (f"--part={part}", f"--kill-at={kill_at}")
    training = LaunchedTraining(
        config, overrides, settings, max(0, workers), verb="selftest-part", words=words
    )
    if where["hosts"]:
        sys.exit(launch_on_hosts(training, dry_run=False, check=False, **where))
    here = workers_here(max(0, workers), settings.device)
    sys.exit(run_command(plan_local(training.arguments, here)))


def _work(settings: Any, part: str, kill_at: int) -> None:
    keep_gpu_memory_whole(os.environ)
    from unisono.selftest.parts import run_group_tests, run_trial_training

    def emit(found: msgspec.Struct) -> None:
        if part == "short":  # for people: the last part of `launch --check`
            print(found, flush=True)
            return
        print(msgspec.json.encode({type(found).__name__: found}).decode(), flush=True)

    def notify(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    if part == "train":
        run_trial_training(settings, emit, notify, kill_at)
    else:
        run_group_tests(settings, emit, notify, short=part == "short")
