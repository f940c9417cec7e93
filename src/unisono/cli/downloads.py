"""Progress of downloads: a bar a file on a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Generator
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bar

from unisono.corpora.assemble import Step
from unisono.corpora.get import Progress
from unisono.units import amount_of_bytes

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 30.0


def draw(work: Generator[Progress, None, T]) -> T:
    """Do the work and show on standard error how far it is; return what it returns."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        return _drive(work, _Log())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Bar(*columns, console=console, transient=True, expand=True) as bar:
        return _drive(work, _Bars(bar))


class _Bars:
    """One bar for the file at work; a line stays behind for every file that is finished."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def show(self, title: str, at: Progress) -> None:
        if title not in self._tasks:
            for task in self._tasks.values():
                self._bar.remove_task(task)
            task = self._bar.add_task(_shortened(title), total=at.total or None)
            self._tasks = {title: task}
        note = getattr(at, "note", "")
        self._bar.update(self._tasks[title], completed=at.done, total=at.total or None)
        if note:
            self._bar.console.print(f"{title}: {note}", markup=False, highlight=False)


class _Log:
    """A line when a download begins, every 30 seconds, and when there is something to say."""

    def __init__(self) -> None:
        self._title, self._said, self._began, self._first = "", 0.0, 0.0, 0

    def show(self, title: str, at: Progress) -> None:
        now = time.monotonic()
        note = getattr(at, "note", "")
        if title != self._title:
            self._title, self._began, self._first = title, now, at.done
            due = not isinstance(at, Step)
        else:
            due = bool(note)
        if not due and now - self._said < SECONDS_BETWEEN_LINES:
            return
        self._said = now
        rate = (at.done - self._first) / (now - self._began) if now > self._began else 0.0
        parts = [f"{title}:", amount_of_bytes(at.done)]
        parts += [f"of {amount_of_bytes(at.total)}"] if at.total else []
        parts += [f"at {amount_of_bytes(rate)}/s"] if rate else []
        parts += [f"({note})"] if note else []
        print(*parts, file=sys.stderr, flush=True)


def _drive(work: Generator[Progress, None, T], screen: _Bars | _Log) -> T:
    while True:
        try:
            at = next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        screen.show(_title(at), at)


def _title(at: Progress) -> str:
    if isinstance(at, Step):
        return f"{at.work} {at.name}"
    return f"fetching {at.name}"


def _shortened(title: str) -> str:
    return title if len(title) <= 34 else f"{title[:33]}…"
