"""`unisono watch`: a run while it goes on."""

import sys
import time
from pathlib import Path

import click
from rich.console import Console, RenderableType
from rich.live import Live

from unisono.cli.options import PathType
from unisono.cli.pages.console import PrintableConsole
from unisono.errors import DataError
from unisono.live.page import page
from unisono.live.window import OVER, now_of
from unisono.records.follow import Follower
from unisono.records.view import read_imported

LINGER_SECONDS = 20.0  # after a failure: a supervisor may start it again


@click.command()
@click.argument("run", type=PathType)
@click.option("--every", default=1.0, show_default=True, help="Seconds between two refreshes.")
@click.option("--once", is_flag=True, help="Show the page once and exit.")
def watch(run: Path, every: float, once: bool) -> None:
    """Show how the run in the directory RUN is doing, until it ends or you press Ctrl-C.

    The page shows progress, loss, BLEU, speed, where the time of each process goes, what the
    machines do, and what slows the run down right now. It only reads files, so it works over
    ssh, in tmux, and while the run goes on.
    """
    if read_imported(run) is not None:
        raise DataError(
            f"{run} was imported from another trainer, so it has no live state",
            where=str(run),
            fix=f"read its report: unisono report {run}",
        )
    follower = Follower(run)
    console = PrintableConsole(sys.stdout, highlight=False)
    if once or not console.is_terminal:
        console.print(_look(run, follower, console)[0])
        return
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            alive = time.monotonic()
            while True:
                shown, state = _look(run, follower, console)
                live.update(shown, refresh=True)
                alive = alive if state == "failed" else time.monotonic()
                if state in OVER and (
                    state != "failed" or time.monotonic() - alive > LINGER_SECONDS
                ):
                    break
                time.sleep(max(0.1, every))
    except KeyboardInterrupt:
        sys.exit(0)
    console.print(_look(run, follower, console)[0])


def _look(run: Path, follower: Follower, console: Console) -> tuple[RenderableType, str]:
    view = follower.look()
    now = now_of(view, time.time())
    return page(run, view, follower.outline, now, console.width), now.state
