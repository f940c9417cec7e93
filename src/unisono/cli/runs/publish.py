"""`unisono publish`: what a run says, for other programs."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from unisono.cli.options import PathType
from unisono.diagnose.case import open_case
from unisono.errors import ConfigError, RunError
from unisono.live.window import OVER
from unisono.publish.webhook import Webhook
from unisono.records.follow import Follower
from unisono.small_files import read_line

PUBLISH_SECONDS = 2.0


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PathType, metavar="RUN…")
@click.option(
    "--to",
    required=True,
    type=click.Choice(["prometheus", "webhook"]),
    help="Who is told: Prometheus, which reads all series, or a web address, for alerts.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to answer at.")
@click.option(
    "--port",
    default=9476,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to answer at; 0 takes one that is free.",
)
@click.option(
    "--address-file",
    type=PathType,
    help="File whose one line is the address of the webhook, which may hold a token.",
)
@click.option(
    "--linger",
    default=300.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds to go on after the end of the runs.",
)
def publish(
    runs: tuple[Path, ...],
    to: str,
    host: str,
    port: int,
    address_file: Path | None,
    linger: float,
) -> None:
    """Tell other programs how the runs in the directories RUN are doing, until they end.

    It only reads what the runs write, on this machine or a shared disk, and costs them nothing.
    A webhook gets each alert once: losses, findings, warnings, a run that stands still, its
    end. What it does not take is sent later, also by a later call.
    """
    for run in runs:
        if not (run / "events").is_dir():
            raise ConfigError(
                f"{run} is not the directory of a run",
                where=str(run),
                fix="name the directory that `run` in the config names, such as runs/tiny",
            )
    try:
        if to == "webhook":
            _send_alerts([Webhook(run, _address(address_file)) for run in runs], linger)
        else:
            print(f"http://{host}:{_serve(runs, host, port)}/metrics", flush=True)
            _wait_for_the_end(runs, linger)
    except KeyboardInterrupt:
        sys.exit(0)


def _serve(runs: tuple[Path, ...], host: str, port: int) -> int:
    try:
        from unisono.publish.prometheus import serve_metrics
    except ImportError as error:
        raise ConfigError(
            "Prometheus' client for Python is not installed",
            where="--to prometheus",
            fix="pip install unisono[publish]",
        ) from error
    return serve_metrics(runs, host, port)


def _address(file: Path | None) -> str:
    if file is None:
        raise ConfigError(
            "a webhook needs an address",
            where="--to webhook",
            fix="write it into a file of mode 600, and name that with --address-file",
        )
    return read_line(file).strip()


def _send_alerts(hooks: list[Webhook], linger: float) -> None:
    told, over_since = {id(hook): "" for hook in hooks}, 0.0
    while True:
        looks = [hook.look(time.time()) for hook in hooks]
        for hook in hooks:
            if hook.refused and hook.refused != told[id(hook)]:
                print(
                    f"warning: not sent, will be tried again: {hook.refused}", file=sys.stderr
                )
            told[id(hook)] = hook.refused
        waiting = sum(len(alerts) for _, alerts in looks)
        states = [state for state, _ in looks]
        over_since = _over_since(states, over_since)
        if over_since:
            failed = "failed" in states  # a supervisor may start it again
            if time.monotonic() - over_since >= linger or not (waiting or failed):
                break
        time.sleep(PUBLISH_SECONDS)
    if waiting:
        raise RunError(
            f"{waiting} alerts were not taken: {hooks[0].refused}",
            where="--to webhook",
            fix="call the same command again when the address can be reached",
        )


def _wait_for_the_end(runs: tuple[Path, ...], linger: float) -> None:
    followers = [Follower(run, recent=True) for run in runs]
    over_since = 0.0
    while not over_since or time.monotonic() - over_since < linger:
        states = [open_case(follower.look(), time.time()).state for follower in followers]
        over_since = _over_since(states, over_since)
        time.sleep(PUBLISH_SECONDS)


def _over_since(states: Sequence[str], before: float) -> float:
    """Return since when all runs are over, by the monotonic clock; 0 if one goes on."""
    return (before or time.monotonic()) if all(state in OVER for state in states) else 0.0
