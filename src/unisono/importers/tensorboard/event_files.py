"""Records of an event file, as far as they are sound.

A record is its length (8 bytes), a checksum of that, the data, and a checksum of them. The last
one is torn while a trainer writes or after it was killed: that is normal. A damaged one is
passed over and counted; if its length is damaged, the next place where one fits is looked for.

Scalars in event files: tag, step, time and value.
"""

import math
import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT

from unisono.importers.tensorboard.tags import READ

LARGEST = 1 << 16  # bytes of a record with scalars; larger ones hold graphs and pictures
MOST_TRIES = 1_000_000
HEADER, FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_POLYNOMIAL, _MASK = 0x82F63B78, 0xA282EAD8


def _entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = tuple(_entry(value) for value in range(256))


def masked_checksum(data: bytes) -> int:
    """Return the CRC-32C of `data`, turned and shifted as event files have it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + _MASK) & 0xFFFFFFFF


@dataclass
class Damage:
    """What was passed over: damaged records (a stretch without any counts once), a torn end."""

    records: int = 0
    torn: int = 0


def records_of(path: Path, damage: Damage) -> Iterator[bytes]:
    """Yield the data of the sound records of `path` that may hold scalars."""
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place: int | None = 0
        while place is not None and place < len(data):
            length = _length_at(data, place)
            if length is None:
                place = _next_record(data, place, damage)
                continue
            begin, end = place + HEADER.size, place + HEADER.size + length
            if end + FOOTER.size > len(data):
                damage.torn += 1
                return
            if length <= LARGEST:
                record = data[begin:end]
                if FOOTER.unpack_from(data, end)[0] == masked_checksum(record):
                    yield record
                else:
                    damage.records += 1
            place = end + FOOTER.size


def _length_at(data: mmap.mmap, place: int) -> int | None:
    if place + HEADER.size > len(data):
        return None
    length, checksum = HEADER.unpack_from(data, place)
    sound = checksum == masked_checksum(data[place : place + 8])
    return int(length) if sound and length < 1 << 32 else None


def _next_record(data: mmap.mmap, place: int, damage: Damage) -> int | None:
    """Return where the next record begins; its length has four zeros at its end."""
    if place + HEADER.size > len(data):
        damage.torn += 1
        return None
    damage.records += 1
    for _ in range(MOST_TRIES):
        zeros = data.find(b"\0\0\0\0", place + 5)
        if zeros < 0:
            return None
        place = zeros - 4
        length = _length_at(data, place)
        if length is not None and place + HEADER.size + length + FOOTER.size <= len(data):
            return place
    return None


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
