"""Record a run: its environment, its events, and its numbers for TensorBoard. No torch."""

import errno
import os
import platform
import re
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.record_writer import RecordWriter

from unisono.errors import DataError
from unisono.records.events import AnyEvent, Sample, StepTaken, Tested, Validated, to_line
from unisono.records.layout import RunDirectory
from unisono.small_files import LineWriter


class Recorder:
    """Writes the events of one process; those of the leading process also to TensorBoard."""

    def __init__(self, run: Path, rank: int, *, leads: bool) -> None:
        directory = RunDirectory(run)
        self._lines = _lines_in(directory.events(rank))
        self._board = TensorBoardSink(directory.tensorboard) if leads else None

    def write(self, event: AnyEvent) -> None:
        self._lines.write(to_line(event))
        if self._board is not None:
            with suppress(OSError):  # the events above are the record, this is a copy
                self._board.write(event)

    def close(self) -> None:
        self._lines.close()
        if self._board is not None:
            with suppress(OSError):
                self._board.close()


def _lines_in(path: Path) -> LineWriter:
    try:
        return LineWriter(path)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise DataError(
            f"{path.name} cannot be written: {error.strerror}",
            where=str(path),
            fix="move it away; the run goes on without what it holds",
        ) from error


FLUSH_SECONDS = 5


class TensorBoardSink:
    """Writes the numbers of steps, validations and the test for TensorBoard to show."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        # TensorBoard's own writer opens the file again and again, in a thread that dies when
        # somebody moves the directory.
        name = f"events.out.tfevents.{time.time():010.0f}.{platform.node()}.{os.getpid()}"
        self._file = (directory / name).open("ab")
        self._writer, self._flushed = RecordWriter(self._file), 0.0
        self._add(Record(wall_time=time.time(), file_version="brain.Event:2"))

    def write(self, event: AnyEvent) -> None:
        """Write the numbers of `event`, if it has any."""
        numbers = numbers_of(event)
        if not numbers or not isinstance(event, StepTaken | Validated | Tested):
            return
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()]
        if isinstance(event, Validated) and event.samples:
            values.append(_table_of(event.samples))
        record = Record(wall_time=event.time, step=event.step, summary=Summary(value=values))
        self._add(record)

    def _add(self, record: Record) -> None:
        self._writer.write(record.SerializeToString())
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._file.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        self._file.close()


def numbers_of(event: AnyEvent) -> dict[str, float]:
    """Return the numbers of `event` for TensorBoard, by tag."""
    if isinstance(event, StepTaken):
        return {
            "train/loss": event.loss,
            "train/learning_rate": event.learning_rate,
            "train/gradient_norm": event.gradient_norm,
            "train/seconds_per_step": event.seconds,
            "train/target_tokens_per_second": event.target_tokens / max(event.seconds, 1e-9),
            "train/waited_for_data": event.data,
            "train/exposed_exchange": event.exchange,
            "train/epoch": event.epoch,
        }
    if isinstance(event, Validated):
        numbers = {"eval/loss": event.loss, "eval/seconds": event.seconds}
        if event.bleu >= 0:
            numbers |= _bleu("eval", event)
        if event.clean_training_loss >= 0:
            numbers["eval/clean_training_loss"] = event.clean_training_loss
        return numbers
    if isinstance(event, Tested):
        return _bleu("test", event)
    return {}


def _bleu(place: str, event: Validated | Tested) -> dict[str, float]:
    """Return BLEU with the ends of its 95 % interval, if that was recorded."""
    low, high = f"{place}/bleu_low", f"{place}/bleu_high"
    ends = {low: event.bleu_low, high: event.bleu_high} if event.bleu_low >= 0 else {}
    chrf = {f"{place}/chrf": event.chrf} if event.chrf >= 0 else {}
    return {f"{place}/bleu": event.bleu, **ends, **chrf}


def _table_of(samples: tuple[Sample, ...]) -> Summary.Value:
    """Return the samples as a table in Markdown, which TensorBoard shows under Text."""
    rows = [("source", "reference", "translation"), ("---", "---", "---")]
    rows += [(_cell(s.source), _cell(s.reference), _cell(s.translation)) for s in samples]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    plugin = SummaryMetadata.PluginData(plugin_name="text")
    return Summary.Value(
        tag="eval/samples",
        metadata=SummaryMetadata(plugin_data=plugin),
        tensor=TensorProto(
            dtype=DT_STRING,
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
            string_val=[text.encode("utf-8")],
        ),
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_LIBRARIES = ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "msgspec")
_SECRET = re.compile(r"(?i)(token|key|secret|password|passwd)=\S+")
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def describe_environment(devices: list[str]) -> dict[str, Any]:
    """Return a description of this machine and this command, safe to publish."""
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("unisono", *_LIBRARIES)},
        "commit": _commit(),
        "command": [redact(argument) for argument in sys.argv],
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_bytes": psutil.virtual_memory().total,
        "devices": devices,
        "interfaces": {
            name: {"up": stats.isup, "mbit_per_s": stats.speed}
            for name, stats in psutil.net_if_stats().items()
        },
    }


def redact(text: str) -> str:
    """Return `text` without passwords, tokens and keys."""
    return _USER_IN_URL.sub("[redacted]@", _SECRET.sub(r"\1=[redacted]", text))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    """Return the commit of the source Unisono runs from, or "" if it is installed."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
