"""`unisono publish`: what a run says, for other programs."""

import os
import sys
import time
from collections.abc import Callable, Sequence, Sized
from pathlib import Path
from typing import Protocol

import click

from unisono.cli.options import PathType
from unisono.diagnose.case import open_case
from unisono.errors import ConfigError, RunError
from unisono.live.window import OVER
from unisono.publish.mlflow_server import MlflowServer
from unisono.publish.retry import Retry
from unisono.publish.tracker import TrackedRun, Tracker
from unisono.publish.trackio_server import TrackioServer
from unisono.publish.webhook import Webhook
from unisono.records.follow import Follower
from unisono.small_files import read_line

PUBLISH_SECONDS = 2.0
SERVER_VARIABLES = {"mlflow": "MLFLOW_TRACKING_URI", "trackio": "TRACKIO_SERVER_URL"}
SERVERS: dict[str, Callable[..., Tracker]] = {"mlflow": MlflowServer, "trackio": TrackioServer}


class Sender(Protocol):
    """Sends one run to one place."""

    retry: Retry

    def look(self, now: float) -> tuple[str, Sized]:
        """Send what can be; return the run's state and what remains."""

    def close(self, state: str) -> None:
        """Nothing more comes."""


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PathType, metavar="RUN…")
@click.option(
    "--to",
    required=True,
    type=click.Choice(["prometheus", "mlflow", "wandb", "trackio", "webhook"]),
    help="Who is told: Prometheus, which reads all series; MLflow, Weights & Biases or "
    "Trackio, which get series and alerts; or a web address, which gets alerts.",
)
@click.option(
    "--server",
    default="",
    metavar="URL",
    help="Server of MLflow or Trackio; default: MLFLOW_TRACKING_URI or TRACKIO_SERVER_URL.",
)
@click.option(
    "--project",
    default="unisono",
    show_default=True,
    help="Project there; MLflow calls it experiment.",
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
    server: str,
    project: str,
    host: str,
    port: int,
    address_file: Path | None,
    linger: float,
) -> None:
    """Tell other programs how the runs in the directories RUN are doing, until they end.

    It only reads what the runs write, on this machine or a shared disk, and costs them nothing.
    Each alert is sent once: losses, findings, warnings, a run that stands still, its end. What
    is not taken is sent later, also by a later call. Tokens come from the environment:
    MLFLOW_TRACKING_TOKEN, TRACKIO_WRITE_TOKEN, WANDB_API_KEY.
    """
    for run in runs:
        if not (run / "events").is_dir():
            raise ConfigError(
                f"{run} is not the directory of a run",
                where=str(run),
                fix="name the directory that `run` in the config names, such as runs/tiny",
            )
    try:
        if to == "prometheus":
            print(f"http://{host}:{_serve(runs, host, port)}/metrics", flush=True)
            _wait_for_the_end(runs, linger)
        elif to == "webhook":
            _send([Webhook(run, _address(address_file)) for run in runs], to, linger)
        else:
            _send(
                [TrackedRun(run, to, _tracker(to, run, server, project)) for run in runs],
                to,
                linger,
            )
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


def _tracker(to: str, run: Path, server: str, project: str) -> Tracker:
    if to in SERVERS:
        variable = SERVER_VARIABLES[to]
        address = server or os.environ.get(variable, "")
        if not address:
            raise ConfigError(
                f"{to} needs the address of its server",
                where=f"--to {to}",
                fix=f"such as --server http://127.0.0.1:5000, or the variable {variable}",
            )
        return SERVERS[to](address, project, os.environ)
    try:
        from unisono.publish.wandb_files import WandbFiles
    except ImportError as error:
        raise ConfigError(
            "the package of Weights & Biases is not installed",
            where="--to wandb",
            fix="pip install wandb",
        ) from error
    return WandbFiles(run, project, os.environ)


def _send(senders: Sequence[Sender], to: str, linger: float) -> None:
    told, over_since = dict.fromkeys(map(id, senders), ""), 0.0
    while True:
        looks = [sender.look(time.time()) for sender in senders]
        for sender in senders:
            refused = sender.retry.refused
            if refused and refused != told[id(sender)]:
                print(f"warning: not sent, will be tried again: {refused}", file=sys.stderr)
            told[id(sender)] = refused
        waiting = sum(len(left) for _, left in looks)
        states = [state for state, _ in looks]
        over_since = _over_since(states, over_since)
        if over_since:
            failed = "failed" in states  # a supervisor may start it again
            if time.monotonic() - over_since >= linger or not (waiting or failed):
                break
        time.sleep(PUBLISH_SECONDS)
    for sender, state in zip(senders, states, strict=True):
        sender.close(state)
    reasons = [sender.retry.refused for sender in senders if sender.retry.refused]
    if waiting or reasons:
        raise RunError(
            f"{waiting} messages were not taken: {', '.join(reasons) or 'there was no time'}",
            where=f"--to {to}",
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
