"""Scalars in event files: tag, step, time and value."""

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT

from unisono.foreign.tensorboard.records import Damage, records_of
from unisono.foreign.tensorboard.tags import READ

MOST_POINTS = 200_000
MOST_TAGS = 5_000
LONGEST_TAG = 200


@dataclass
class Series:
    """The points of one tag, in the order of steps."""

    steps: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, step: int, time: float, value: float) -> None:
        """Append a point; a step that was there before begins anew from there."""
        while self.steps and self.steps[-1] >= step:
            self.steps.pop(), self.times.pop(), self.values.pop()
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)
        if len(self.steps) > MOST_POINTS:
            self.steps, self.times = self.steps[1::2], self.times[1::2]
            self.values = self.values[1::2]

    def at(self) -> dict[int, float]:
        """Return the values by step."""
        return dict(zip(self.steps, self.values, strict=True))


def read_scalars(path: Path, series: dict[str, Series], damage: Damage) -> None:
    """Add the scalars in the event file at `path` to `series`, by tag.

    Of tags that no trainer we know has, only the names are kept.
    """
    for data in records_of(path, damage):
        try:
            record = Record.FromString(data)
        except DecodeError:
            damage.records += 1
            continue
        for tag, value in _scalars(record):
            if tag in series or len(series) < MOST_TAGS:
                points = series.setdefault(tag, Series())
                if tag in READ:
                    points.add(int(record.step), float(record.wall_time), value)


def _scalars(record: Record) -> Iterator[tuple[str, float]]:
    if not record.HasField("summary") or not math.isfinite(record.wall_time) or record.step < 0:
        return
    for value in record.summary.value:
        number = _number(value)
        if number is not None and len(value.tag) <= LONGEST_TAG:
            yield value.tag, number


def _number(value: Summary.Value) -> float | None:
    if value.HasField("simple_value"):
        return float(value.simple_value)
    return _single(value.tensor) if value.HasField("tensor") else None


def _single(tensor: TensorProto) -> float | None:
    """Return the number of a tensor with one, as newer writers store scalars."""
    reader = _READERS.get(tensor.dtype)
    if reader is None or any(dimension.size != 1 for dimension in tensor.tensor_shape.dim):
        return None
    return reader(tensor)


def _float(tensor: TensorProto) -> float | None:
    if len(tensor.tensor_content) == 4:
        return float(struct.unpack("<f", tensor.tensor_content)[0])
    return float(tensor.float_val[0]) if len(tensor.float_val) == 1 else None


def _double(tensor: TensorProto) -> float | None:
    if len(tensor.tensor_content) == 8:
        return float(struct.unpack("<d", tensor.tensor_content)[0])
    return float(tensor.double_val[0]) if len(tensor.double_val) == 1 else None


_READERS: dict[int, Callable[[TensorProto], float | None]] = {
    int(DT_FLOAT): _float,
    int(DT_DOUBLE): _double,
}
