"""Read scalars from TensorBoard event files, and the tags that trainers give them.

A record is its length (8 bytes), a checksum of that, the data, and a checksum of the data. The
last one is incomplete while a trainer writes, or after a kill: that is normal. A damaged record
is skipped and counted; if its length is damaged, the search goes on to the next place where a
record fits. To add a trainer, add an entry to `TRAINERS`.
"""

import math
import mmap
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT

from unisono.small_files import open_regular

LARGEST_RECORD = 1 << 16  # bytes of a record with scalars; larger ones hold graphs and pictures
MOST_TRIES = 1_000_000
HEADER, FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_POLYNOMIAL, _MASK = 0x82F63B78, 0xA282EAD8


def _entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = tuple(_entry(value) for value in range(256))


def masked_checksum(data: bytes) -> int:
    """Return the CRC-32C of `data`, masked as in event files."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + _MASK) & 0xFFFFFFFF


@dataclass
class Damage:
    """What was skipped: damaged records (adjacent ones count once) and incomplete ends."""

    records: int = 0
    torn: int = 0


def records_of(path: Path, damage: Damage) -> Iterator[bytes]:
    """Yield the data of the intact records of `path` that may hold scalars."""
    if not path.stat().st_size:
        return
    with (
        open_regular(path) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
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
            if length <= LARGEST_RECORD:
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


MOST_SERIES_POINTS = 200_000
MOST_TAGS = 5_000
LONGEST_TAG = 200


@dataclass
class Series:
    """The points of one tag, in the order of steps."""

    steps: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, step: int, time: float, value: float) -> None:
        """Append a point; a step that occurs again replaces everything from there on."""
        while self.steps and self.steps[-1] >= step:
            self.steps.pop(), self.times.pop(), self.values.pop()
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)
        if len(self.steps) > MOST_SERIES_POINTS:
            self.steps, self.times = self.steps[1::2], self.times[1::2]
            self.values = self.values[1::2]

    def at(self) -> dict[int, float]:
        return dict(zip(self.steps, self.values, strict=True))


def read_scalars(path: Path, series: dict[str, Series], damage: Damage) -> None:
    """Add the scalars in the event file at `path` to `series`, by tag.

    Of tags that no known trainer has, only the names are kept.
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


NATS_PER_BIT = math.log(2)  # nats


@dataclass(frozen=True)
class Tags:
    """The tags of a trainer, by what they tell; of several, the first that is there counts.

    Tags have the directory in front in which they were found, if there is more than one. Losses
    are multiplied by `loss_unit` to be nats. `proof` are tags of which one must be there.
    """

    trainer: str
    proof: tuple[str, ...]
    loss: tuple[str, ...]
    valid_loss: tuple[str, ...]
    learning_rate: tuple[str, ...] = ()
    gradient_norm: tuple[str, ...] = ()
    bleu: tuple[str, ...] = ()
    valid_seconds: tuple[str, ...] = ()
    seconds: tuple[str, ...] = ()
    tokens_per_second: tuple[str, ...] = ()
    epoch: tuple[str, ...] = ()
    loss_unit: float = 1.0
    note: str = ""

    @property
    def known(self) -> frozenset[str]:
        """Return all tags that are read."""
        groups = (self.loss, self.valid_loss, self.learning_rate, self.gradient_norm, self.bleu)
        more = (self.valid_seconds, self.seconds, self.tokens_per_second, self.epoch)
        return frozenset(tag for group in (*groups, *more) for tag in group)

    def fit(self, found: Collection[str]) -> bool:
        """Return whether these are the tags that were found."""
        return any(tag in found for tag in self.proof)


UNISONO = Tags(
    trainer="Unisono",
    proof=("train/seconds_per_step",),
    loss=("train/loss",),
    valid_loss=("eval/loss",),
    learning_rate=("train/learning_rate",),
    gradient_norm=("train/gradient_norm",),
    bleu=("eval/bleu",),
    valid_seconds=("eval/seconds",),
    seconds=("train/seconds_per_step",),
    tokens_per_second=("train/target_tokens_per_second",),
    epoch=("train/epoch",),
)
HUGGING_FACE = Tags(
    trainer="Hugging Face",
    proof=("train/loss", "eval/loss"),
    loss=("train/loss",),
    valid_loss=("eval/loss",),
    learning_rate=("train/learning_rate",),
    gradient_norm=("train/grad_norm",),
    bleu=("eval/bleu",),
    valid_seconds=("eval/runtime",),
    note="other trainers use the tags of Hugging Face, too; losses are means over batches",
)
FAIRSEQ = Tags(
    trainer="fairseq",
    proof=("train_inner/loss", "valid/nll_loss", "train/nll_loss", "train/ups", "train/gnorm"),
    loss=("train_inner/nll_loss", "train/nll_loss", "train_inner/loss", "train/loss"),
    valid_loss=("valid/nll_loss", "valid/loss"),
    learning_rate=("train_inner/lr", "train/lr"),
    gradient_norm=("train_inner/gnorm", "train/gnorm"),
    bleu=("valid/bleu",),
    tokens_per_second=("train_inner/wps", "train/wps"),
    loss_unit=NATS_PER_BIT,
    note="fairseq writes losses in bits; they were converted to nats",
)
OPENNMT = Tags(
    trainer="OpenNMT-py or Eole",
    proof=("progress/xent", "progress/ppl", "valid/xent"),
    loss=("progress/xent",),
    valid_loss=("valid/xent",),
    learning_rate=("progress/lr",),
    bleu=("valid/BLEU", "valid/bleu"),
    tokens_per_second=("progress/tgtper",),
)

TRAINERS = (UNISONO, FAIRSEQ, OPENNMT, HUGGING_FACE)
# fairseq has a directory for what stands before the slash.
READ = frozenset(tag for tags in TRAINERS for tag in tags.known)
READ |= {tag.rpartition("/")[2] for tag in FAIRSEQ.known}
