"""Records of an event file, as far as they are sound.

A record is its length (8 bytes), a checksum of that, the data, and a checksum of them. The last
one is torn while a trainer writes or after it was killed: that is normal. A damaged one is
passed over and counted; if its length is damaged, the next place where one fits is looked for.
"""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
