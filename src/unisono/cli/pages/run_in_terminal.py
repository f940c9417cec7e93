"""The page of a run in a terminal, as long as the run goes on."""

import sys
import time
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live

from unisono.cli.pages.console import PrintableConsole
from unisono.live.page import page
from unisono.live.window import OVER, now_of
from unisono.records.follow import Follower

LINGER_SECONDS = 20.0  # after a failure: a supervisor may start it again


def watch_in_terminal(run: Path, every: float, *, once: bool) -> None:
    """Show the page until the run ends, or once."""
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
