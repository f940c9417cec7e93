"""What the self-test found: lines with ✓ or ✗, as text and as one file. No torch here."""

import platform
import time

import msgspec

from unisono import __version__
from unisono.nvidia import Driver

FORMAT = 1
SELFTEST_MARKS = {True: "✓", False: "✗", None: "–"}


class SelftestLine(msgspec.Struct, frozen=True, kw_only=True):
    """One test: whether it passed (None: it could not run), what it saw, what to do."""

    name: str
    passed: bool | None
    text: str
    fix: str = ""
    figures: dict[str, float] = {}

    def __str__(self) -> str:
        said = f"{SELFTEST_MARKS[self.passed]} {self.name}: {self.text}"
        return f"{said}\n    {self.fix}" if self.fix and self.passed is False else said


class TrainingEnd(msgspec.Struct, frozen=True):
    """How a short training ended: the hash of its weights, its last loss, its updates.

    `began` is the last update of the checkpoint that it continued from: 0 without one.
    """

    weights: str
    loss: float
    step: int
    began: int = 0


class KillNotice(msgspec.Struct, frozen=True):
    """A process is about to kill itself."""

    rank: int


class SelftestResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found, and where."""

    format: int = FORMAT
    date: str
    unisono: str
    python: str
    system: str
    hosts: list[str]
    driver: Driver
    seconds: float
    lines: list[SelftestLine]

    @property
    def passed(self) -> bool:
        """Whether no test failed."""
        return all(line.passed is not False for line in self.lines)


def result_of(
    lines: list[SelftestLine], hosts: list[str], driver: Driver, seconds: float
) -> SelftestResult:
    """Return the result, dated now and on this machine."""
    return SelftestResult(
        date=time.strftime("%Y-%m-%d %H:%M:%S"),
        unisono=__version__,
        python=platform.python_version(),
        system=platform.platform(),
        hosts=hosts or [platform.node()],
        driver=driver,
        seconds=round(seconds, 1),
        lines=lines,
    )
