"""The page of one corpus in the catalogue, and the progress of getting it.

Progress is a bar for each file on a terminal, and a line now and then in a log.
"""

import sys
import time
from collections.abc import Generator, Iterator
from typing import TypeVar

from rich.progress import (
    BarColumn,
    DownloadColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bar

from unisono.cli.pages.console import PrintableConsole
from unisono.datasets.assemble import AssemblyStep
from unisono.datasets.entry import Entry, File
from unisono.datasets.fetch import Received
from unisono.datasets.get import Progress
from unisono.units import amount_of_bytes


def entry_page(entry: Entry) -> str:
    """Return the sets, downloads and notes of a corpus."""
    lines = [f"{entry.name}: {entry.description}, {'→'.join(entry.languages)}", "", "sets"]
    width = max(len(item.name) for item in entry.set)
    for item in entry.set:
        pairs = f"{item.pairs:,}" if item.pairs else "?"
        note = f"  {item.note}" if item.note else ""
        lines.append(f"  {item.role:5}  {item.name:{width}}  {pairs:>9} pairs{note}")
    lines += ["", f"downloads: {size_of(entry) if entry.file else 'none'}"]
    lines += [line for file in entry.file for line in _download(file)]
    lines += ["", *entry.notes] if entry.notes else []
    lines += ["", f"licence: {entry.licence}"] if entry.licence else []
    return "\n".join(lines)


def size_of(entry: Entry) -> str:
    """Return the size of all downloads; + if some are unknown, ? if all are."""
    known = sum(file.bytes for file in entry.file)
    more = "" if entry.download_bytes else " +"
    return f"{amount_of_bytes(known)}{more}" if known else "?"


def _download(file: File) -> Iterator[str]:
    size = amount_of_bytes(file.bytes) if file.bytes else "unknown size"
    checksum = "SHA-256" if file.sha256 else "MD5" if file.md5 else "no checksum"
    yield f"  {file.name}  {size}, {checksum}"
    yield from (f"    {url}" for url in file.urls)


T = TypeVar("T")
SECONDS_BETWEEN_LINES = 30.0


def draw(work: Generator[Progress, None, T]) -> T:
    """Do the work, show its progress on standard error, and return its result."""
    console = PrintableConsole(sys.stderr)
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
    """A bar for the current file, and a line for each note."""

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

    def finish(self) -> None:
        """Do nothing: the bar disappears by itself."""


class _Log:
    """A line when a download begins and ends, every 30 seconds, and for each note."""

    def __init__(self) -> None:
        self._title, self._said, self._began, self._first = "", 0.0, 0.0, 0
        self._fetching: Received | None = None

    def show(self, title: str, at: Progress) -> None:
        now = time.monotonic()
        note = getattr(at, "note", "")
        due = bool(note)
        if title != self._title:
            self.finish()
            self._title, self._began, self._first = title, now, at.done
            due = isinstance(at, Received)
            if isinstance(at, Received) and 0 < at.total == at.done:
                _say(f"{at.name} is here already, {amount_of_bytes(at.done)}")
                self._said = now
                return
        self._fetching = at if isinstance(at, Received) else None
        if not due and now - self._said < SECONDS_BETWEEN_LINES:
            return
        self._said = now
        rate = (at.done - self._first) / (now - self._began) if now > self._began else 0.0
        parts = [f"{title}:", amount_of_bytes(at.done)]
        parts += [f"of {amount_of_bytes(at.total)}"] if at.total else []
        parts += [f"at {amount_of_bytes(rate)}/s"] if rate else []
        parts += [f"({note})"] if note else []
        _say(" ".join(parts))

    def finish(self) -> None:
        """Report that the current file has arrived, if there is one."""
        if self._fetching is not None:
            _say(f"fetched {self._fetching.name}, {amount_of_bytes(self._fetching.done)}")
        self._fetching = None


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _drive(work: Generator[Progress, None, T], screen: _Bars | _Log) -> T:
    while True:
        try:
            at = next(work)
        except StopIteration as end:
            screen.finish()
            result: T = end.value
            return result
        screen.show(_title(at), at)


def _title(at: Progress) -> str:
    if isinstance(at, AssemblyStep):
        return f"{at.work} {at.name}"
    return f"fetching {at.name}"


def _shortened(title: str) -> str:
    return title if len(title) <= 34 else f"{title[:33]}…"
