"""Read the log that OpenSeq2Seq prints while it trains.

Several processes write a log at once, and logs are compressed, cut off, copied from a terminal
or appended to one another. So a number counts only if it is complete, in the form in which it
is printed (a loss with four decimals, a time with three), and a sentence of the training set is
never mistaken for a message of the trainer.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from unisono.decompress import DecompressionError, compression_of, decompressed_blocks
from unisono.errors import DataError
from unisono.importers.openseq2seq.printed_config import PrintedTable
from unisono.small_files import open_regular, reason

LONGEST = 1 << 16  # bytes of a line that are read
BROKEN_MARK = "…"

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# What `mpirun --tag-output` and horovodrun put in front: [job,rank]<stream>: and a clock.
_TAG = re.compile(
    r"^(?:\w{3} \w{3} +\d+ [\d:]{8} \d{4})?\[\d+,(\d+)\](?:<(?:stdout|stderr)>)?:"
)
_DIGITS = re.compile(r"[\d.](?!\d{3}-\d\d-\d\d )")  # not a date


def log_lines(path: Path) -> Iterator[str]:
    """Yield the lines of the log at `path`, without colours and tags, in bounded memory.

    A carriage return ends a line, too. A last line without an end is skipped, and a very long
    line is truncated. A line that a narrow terminal has broken within a number ends in
    `BROKEN_MARK`: its last number is incomplete.
    """
    with _opened(path) as file:
        before = None
        for data in _whole_lines(file, path):
            line = _plain(data.decode("utf-8", "replace"))
            if before is not None:
                yield before + BROKEN_MARK if _DIGITS.match(line) else before
            before = line
        if before is not None:
            yield before


def _opened(path: Path) -> io.BufferedReader:
    try:
        return open_regular(path)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {reason(error)}", where=str(path), fix="name a log"
        ) from error


def _whole_lines(file: io.BufferedReader, path: Path) -> Iterator[bytes]:
    rest = b""
    try:
        for block in decompressed_blocks(file, compression_of(file.peek(8))):
            *lines, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
            yield from (line[:LONGEST] for line in lines if line)
            rest = rest[:LONGEST]
    except DecompressionError:
        return  # The file is cut off or damaged: the lines before that count.
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", where=str(path)) from error


def _plain(line: str) -> str:
    return _TAG.sub("", _ANSI.sub("", line) if "\x1b" in line else line)


MOST_RECORDS = 200_000
MOST_RANKS = 4096
RECENT_RECORDS = 64

_SAMPLE = re.compile(r"(?:Train|EVAL) (?:Source|Target|Prediction)\[|(?:In|Out)put sequence:")
_NUMBER = r"-?(?:\d{1,9}\.\d{4}|nan|inf)(?=[ ,|]|$)"
_TOKEN = re.compile(
    r"\*\*\* (?:Epoch (?P<epoch>\d{1,9}), g|G)lobal step (?P<step>\d{1,12}):"
    rf"|(?:Train loss: |(?<=: )loss = )(?P<loss>{_NUMBER})"
    r"|time per step = (?P<time>\d{1,6}:\d\d:\d{1,2}\.\d{3})(?=\s|$)"
    rf"|\*\*\* +Validation loss: (?P<valid>{_NUMBER})"
    r"|\*\*\* +Eval BLUE score: (?P<bleu>[01](?:\.\d{1,18})?(?:e-\d\d)?)(?=\s*$)"
    r"|\*\*\* Total trainable parameters: (?P<parameters>\d{1,15})(?=\s*$)"
    r"|\*\*\* Building graph in Horovod rank: (?P<rank>\d{1,5})(?=\s*$)"
    r"|\*\*\* (?P<table>Training|Evaluation) config:"
    r"|\*\*\* (?P<horovod>Using horovod)"
    r"|\*\*\* (?P<finished>Finished training)(?=\s*$)"
)
_CLOCK = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,6}): [IWEF] ")
_NCCL = re.compile(r"^([\w.-]{1,255}):(\d{1,9}):\d+ \[(\d{1,4})\] NCCL INFO (.*)$")
_PLACE = re.compile(r"(?:comm 0x\w+ )?rank (\d{1,5}) nranks (\d{1,5})(?=\s*$| - | cudaDev)")
_INTERFACE = re.compile(r"NET.*Using (?:interface |\[0\])([\w.-]+):([\d.]+|\[[\da-f:]+\])<\d+>")
_DEVICE = re.compile(r"^name: (.{1,100}?) major: \d")


@dataclass
class Spent:
    """The time up to here: the sum of all readings, and of each times its updates."""

    readings: float = 0.0
    weighted: float = 0.0


@dataclass
class Record:
    """What the log says of one update; None if it is missing or incomplete."""

    step: int
    epoch: int = 0
    loss: float | None = None
    seconds: float | None = None
    spent: Spent = field(default_factory=Spent)


@dataclass
class Evaluation:
    """A validation between the records of two steps; None if there is no such record."""

    after: int | None
    loss: float
    spent: Spent
    bleu: float | None = None
    before: int | None = None


@dataclass
class LogPosition:
    """Where a process ran, according to NCCL."""

    host: str
    pid: int
    device: int


@dataclass
class LoggedRun:
    """One run of a log, as it was printed."""

    records: list[Record] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    tables: dict[str, PrintedTable] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    places: dict[int, LogPosition] = field(default_factory=dict)
    size: int = 0
    interfaces: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    devices: set[str] = field(default_factory=set)
    parameters: int = 0
    clock: float = 0.0
    horovod: bool = False
    finished: bool = False
    torn: int = 0
    printed: int = 0
    thinned: int = 1
    last_step: int | None = None
    spent: Spent = field(default_factory=Spent)

    @property
    def steps(self) -> tuple[int, int]:
        """Return the first and the last update in the log."""
        return self.records[0].step, self.last_step or 0

    def add(self, record: Record) -> None:
        """Add the next record; of very many, keep one in two, in four, and so on."""
        seconds = record.seconds or 0.0
        gap = 0 if self.last_step is None else record.step - self.last_step
        self.spent = Spent(self.spent.readings + seconds, self.spent.weighted + seconds * gap)
        record.spent, self.last_step = self.spent, record.step
        for evaluation in reversed(self.evaluations):
            if evaluation.before is not None:
                break
            evaluation.before = record.step
        self.torn += record.loss is None
        if self.printed % self.thinned == 0:
            self.records.append(record)
        self.printed += 1
        if len(self.records) > MOST_RECORDS:
            self.records = self.records[::2]
            self.thinned *= 2

    @property
    def begun(self) -> bool:
        """Return whether the next start must belong to another run."""
        return bool(self.records or self.parameters or self.tables)


class LogReader:
    """Reads a log and keeps one of its runs: number `wanted`, or the last one for 0."""

    def __init__(self, wanted: int = 0) -> None:
        self.wanted = wanted
        self.found: list[tuple[int, int]] = []
        self.kept = LoggedRun()
        self.lines = 0
        self._run = LoggedRun()
        self._table: PrintedTable | None = None
        self._record: Record | None = None

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._take(line)
        self._end_run()

    def _take(self, line: str) -> None:
        if self._table is not None and self._table.is_open:
            self._table.add(line)
        sample = _SAMPLE.search(line)
        said = line[: sample.start()] if sample else line
        if "***" in said or "time per step" in said:
            for token in _TOKEN.finditer(said):
                kind = token.lastgroup or ""
                self.lines += 1
                _TAKERS[kind](self, token[kind], token)
        elif "NCCL INFO" in said:
            self._take_nccl(said)
        elif not sample:
            self._take_machine(said)

    def _take_step(self, text: str, token: re.Match[str]) -> None:
        self._end_record()
        self._record = Record(int(text), int(token["epoch"] or 0))

    def _take_loss(self, text: str, _: re.Match[str]) -> None:
        if self._record is not None and self._record.loss is None:
            self._record.loss = float(text)

    def _take_time(self, text: str, _: re.Match[str]) -> None:
        if self._record is not None and self._record.seconds is None:
            hours, minutes, seconds = text.split(":")
            self._record.seconds = 3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds)

    def _take_valid(self, text: str, _: re.Match[str]) -> None:
        self._end_record()
        run = self._run
        run.evaluations.append(Evaluation(run.last_step, float(text), run.spent))

    def _take_bleu(self, text: str, _: re.Match[str]) -> None:
        last = self._run.evaluations[-1] if self._run.evaluations else None
        self._end_record()
        if last is not None and last.bleu is None and last.before is None:
            last.bleu = float(text)

    def _take_parameters(self, text: str, _: re.Match[str]) -> None:
        self._run.parameters = int(text)

    def _take_rank(self, text: str, _: re.Match[str]) -> None:
        self._run.ranks.add(int(text))

    def _take_table(self, text: str, _: re.Match[str]) -> None:
        if text in self._run.tables or self._run.records:
            self._end_run()
        self._table = self._run.tables[text] = PrintedTable()

    def _take_horovod(self, _text: str, _: re.Match[str]) -> None:
        if self._run.begun:
            self._end_run()
        self._run.horovod = True

    def _take_finished(self, _text: str, _: re.Match[str]) -> None:
        self._end_record()
        self._run.finished = bool(self._run.records)

    def _take_nccl(self, said: str) -> None:
        match = _NCCL.match(said)
        if match is None:
            return
        host, pid, text = match[1], int(match[2]), match[4]
        if place := _PLACE.match(text):
            rank, size = int(place[1]), int(place[2])
            # A hierarchical all-reduce has smaller groups besides the one of all ranks.
            if rank < size >= self._run.size and size <= MOST_RANKS:
                self._run.places = {} if size > self._run.size else self._run.places
                self._run.size = size
                self._run.places[rank] = LogPosition(host, pid, int(match[3]))
        elif (net := _INTERFACE.search(text)) and len(self._run.interfaces) < MOST_RANKS:
            self._run.interfaces[host, pid] = (net[1], net[2].strip("[]"))

    def _take_machine(self, said: str) -> None:
        if not self._run.clock and (match := _CLOCK.match(said)):
            self._run.clock = _unix_time(match[1])
        elif match := _DEVICE.match(said):
            self._run.devices.add(match[1])

    def _end_record(self) -> None:
        record, self._record = self._record, None
        if record is None:
            return
        recent = self._run.records[-RECENT_RECORDS:]
        if any(known.step == record.step and known.loss == record.loss for known in recent):
            return  # a terminal repeated the end of the log
        last = self._run.last_step
        if last is not None and record.step <= last:
            self._end_run()
        self._run.add(record)

    def _end_run(self) -> None:
        self._end_record()
        run = self._run
        if self._table is not None and self._table.is_open:
            self._table.close()
        if run.records:
            self.found.append(run.steps)
            if self.wanted in (0, len(self.found)):
                self.kept = run
        elif not self.kept.records and run.begun:
            self.kept = run
        self._run, self._table = LoggedRun(), None


_TAKERS: dict[str, Callable[[LogReader, str, re.Match[str]], None]] = {
    "step": LogReader._take_step,
    "loss": LogReader._take_loss,
    "time": LogReader._take_time,
    "valid": LogReader._take_valid,
    "bleu": LogReader._take_bleu,
    "parameters": LogReader._take_parameters,
    "rank": LogReader._take_rank,
    "table": LogReader._take_table,
    "horovod": LogReader._take_horovod,
    "finished": LogReader._take_finished,
}


def _unix_time(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
