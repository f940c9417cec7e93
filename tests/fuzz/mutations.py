"""Damage done to files, by chance but repeatable: a seed makes the same damage everywhere."""

import json
import os
import random
from pathlib import Path

NASTY_TEXTS = (
    "",
    "\x00",
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b31m\u202e\u2066",
    "\r\n",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "{{ 7*7 }}",
    "\ud800",
    "é" * 5_000,
    "٣",
    "nan",
    "-",
)
NASTY_NUMBERS = (0, -1, 1, 2**31, -(2**63), 2**64, 1e308, -1e308, 5e-324, 0.1, 10**400)
NASTY_VALUES = (None, True, False, [], {}, [[]], {"": None}, *NASTY_TEXTS, *NASTY_NUMBERS)


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Return damaged `data`: in its structure if it is JSON, or else in its bytes."""
    if draw.random() < 0.6:
        structured = _mutate_json(data, draw)
        if structured is not None:
            return structured
    kind = draw.choice(_BYTE_KINDS)
    return kind(data, draw)


def mutate_file(path: Path, draw: random.Random) -> None:
    """Damage the file at `path`; now and then what stands there afterwards is no file."""
    chance = draw.random()
    if chance < 0.9:
        path.write_bytes(mutate(path.read_bytes(), draw))
        return
    path.unlink()
    if chance < 0.92:
        path.mkdir()
    elif chance < 0.94:
        os.mkfifo(path)
    elif chance < 0.96:
        path.symlink_to("/dev/zero")
    elif chance < 0.97:
        path.symlink_to(path.name)
    elif chance < 0.98:
        path.symlink_to("/dev/full")
    elif chance < 0.99:
        path.symlink_to("nowhere")


def _mutate_json(data: bytes, draw: random.Random) -> bytes | None:
    lines = data.split(b"\n")
    several = len(lines) > 2 and lines[0].startswith(b"{") and lines[0].endswith(b"}")
    number = draw.randrange(len(lines) - 1) if several else 0
    try:
        value = json.loads(lines[number] if several else data)
    except (ValueError, RecursionError):
        return None
    changed = json.dumps(_changed(value, draw), ensure_ascii=draw.random() < 0.5)
    text = changed.encode("utf-8", "surrogatepass")
    if not several:
        return text
    lines[number] = text
    return b"\n".join(lines)


def _changed(value: object, draw: random.Random) -> object:
    """Return `value` with one leaf, key or branch replaced, left out or doubled."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(list(value))
        chance = draw.random()
        if chance < 0.15:
            return {name: one for name, one in value.items() if name != key}
        if chance < 0.25:
            return {**value, draw.choice(NASTY_TEXTS): value[key]}
        return {**value, key: _changed(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.85:
        place = draw.randrange(len(value))
        if draw.random() < 0.2:
            return value[:place] + value[place + 1 :]
        return [*value[:place], _changed(value[place], draw), *value[place + 1 :]]
    if draw.random() < 0.03:
        return _nested(draw.choice([50, 2_000]))
    return draw.choice(NASTY_VALUES)


def _nested(depth: int) -> object:
    value: object = []
    for _ in range(min(depth, 400)):
        value = [value]
    return value


def _flip(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 8])):
        if changed:
            changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _left_out(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data) + 1)
    return data[:place] + data[place + draw.choice([1, 4, 64]) :]


def _inserted(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data) + 1)
    return data[:place] + draw.choice(_INSERTED) + data[place:]


def _doubled(data: bytes, draw: random.Random) -> bytes:
    start, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] + data[end:]


def _lines_shuffled(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    draw.shuffle(lines)
    return b"\n".join(lines)


def _a_number_grows(data: bytes, draw: random.Random) -> bytes:
    places = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    if not places:
        return _flip(data, draw)
    place = draw.choice(places)
    return data[:place] + draw.choice([b"9" * 5_000, b"1e999", b"-"]) + data[place:]


def _something_else(data: bytes, draw: random.Random) -> bytes:
    return draw.choice(_WHOLE)


_INSERTED = (b"\x00", b"\xff", b"\n", b"\r", b"\x1b[31m", b'"', b"{", b"[" * 3_000, b"= =")
_WHOLE = (b"", b"\n", b"null", b"[]", b"{}", b'"', b"\xff" * 64, b"[" * 50_000, b"\x00" * 4_096)
_BYTE_KINDS = (
    *(_flip, _flip, _cut, _cut, _left_out, _inserted, _inserted, _doubled),
    *(_lines_shuffled, _a_number_grows, _something_else),
)
