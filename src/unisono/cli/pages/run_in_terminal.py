"""The page of a run in a terminal, as long as the run goes on."""

import sys
import time
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live

from unisono.cli.pages.console import PrintableConsole
from unisono.diagnose.case import Case
from unisono.live.page import page
from unisono.live.run_history import RunHistory
from unisono.live.window import OVER, now_of
from unisono.records.follow import Follower

LINGER_SECONDS = 20.0  # after a failure: a supervisor may start it again
WHOLE_SECONDS = 10.0  # between two accounts of the whole run


class RunScreen:
    """A run that is read again and again, and its page."""

    def __init__(self, run: Path) -> None:
        self._run, self._history = run, RunHistory()
        self._follower = Follower(run, recent=True, listener=self._history)
        self._history.least = self._follower.stride
        self._whole: Case | None = None

    def look(self, console: Console) -> tuple[RenderableType, str]:
        """Return the page as it stands now, and the state of the run."""
        view, moment = self._follower.look(), time.time()
        if self._whole is None or not 0 <= moment - self._whole.now < WHOLE_SECONDS:
            self._whole = self._history.case(view, moment)
        now = now_of(view, moment, self._whole)
        return page(self._run, view, self._follower.outline, now, console.width), now.state


def watch_in_terminal(run: Path, every: float, *, once: bool) -> None:
    """Show the page until the run ends, or once."""
    screen = RunScreen(run)
    console = PrintableConsole(sys.stdout, highlight=False)
    if once or not console.is_terminal:
        console.print(screen.look(console)[0])
        return
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            alive = time.monotonic()
            while True:
                shown, state = screen.look(console)
                live.update(shown, refresh=True)
                alive = alive if state == "failed" else time.monotonic()
                if state in OVER and (
                    state != "failed" or time.monotonic() - alive > LINGER_SECONDS
                ):
                    break
                time.sleep(max(0.1, every))
    except KeyboardInterrupt:
        sys.exit(0)
    console.print(screen.look(console)[0])
