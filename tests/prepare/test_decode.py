from pathlib import Path

import pytest

from unisono.errors import DataError
from unisono.prepare.first_pass.decode import decode_chunk
from unisono.prepare.first_pass.read_files import Chunk
from unisono.prepare.job import RawPair

PLAIN = RawPair("train", "train.0", "[[data.train]] number 1", Path("a.en"), Path("a.de"))
TSV = RawPair(
    "train", "train.0", "[[data.train]] number 1", Path("a.tsv"), Path("a.tsv"), (3, 1)
)


@pytest.mark.parametrize("other", [b"x\n", b"\xff\n"], ids=["fast", "one by one"])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"\n", [""]),
        (b"a\nb\n\n", ["a", "b", ""]),
        (b"a\r\nb\r\r\nc\r\n", ["a", "b\r", "c"]),
        ("a\u2028b\u0085c\x0cd\x1ce\rf\n".encode(), ["a\u2028b\u0085c\x0cd\x1ce\rf"]),
    ],
)
def test_only_a_line_feed_ends_a_line(text, lines, other):
    found = decode_chunk(Chunk(PLAIN, 0, 0, (text + other, text + other)), drop_invalid=True)
    assert found.source[:-1] == found.target[:-1] == lines


@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        (b"na\xefve", "invalid UTF-8", "byte 0xef is not UTF-8"),
        (b"a\x00b", "NUL byte", "a NUL byte"),
        (b"x" * (10 << 20), "line over 1 MiB", "a line of 10485760 bytes"),
        ("ä".encode() * (1 << 19) + b"x", "line over 1 MiB", "a line of 1048577 bytes"),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_an_invalid_line_is_an_error_by_file_and_line_or_a_reason(line, reason, message, side):
    text = [b"one\ntwo\nthree\n", b"one\ntwo\nthree\n"]
    text[side] = b"one\n" + line + b"\nthr\xc3\xa9\xc3\xa9\n"
    chunk = Chunk(PLAIN, 0, 250_000, tuple(text))
    with pytest.raises(DataError, match=message) as caught:
        decode_chunk(chunk, drop_invalid=False)
    assert caught.value.where == f"{PLAIN.files[side]}, line 250002"
    assert "--invalid drop" in caught.value.fix
    lines = decode_chunk(chunk, drop_invalid=True)
    assert lines.invalid == {1: reason}
    assert (lines.source, lines.target)[side][::2] == ["one", "thréé"]
    assert max(len(shown) for shown in lines.source + lines.target) <= 1000


def test_the_longest_line_allowed_is_allowed():
    text = b"x" * (1 << 20) + b"\n"
    assert not decode_chunk(Chunk(PLAIN, 0, 0, (text, text)), drop_invalid=False).invalid


def test_nothing_is_dropped_from_held_out_sets_and_nobody_is_told_so():
    raw = RawPair("valid", "valid.0", "[data.valid]", Path("a.en"), Path("a.de"))
    with pytest.raises(DataError) as caught:
        decode_chunk(Chunk(raw, 0, 0, (b"\xff\n", b"x\n")), drop_invalid=False)
    assert "drop" not in caught.value.fix


def test_columns_become_sides():
    text = "eins\t0.9\tone\textra\nzw\u2028ei\t\ttwo\n".encode()
    lines = decode_chunk(Chunk(TSV, 0, 0, (text,)), drop_invalid=False)
    assert lines.source == ["one", "two"]
    assert lines.target == ["eins", "zw\u2028ei"]


def test_a_line_with_too_few_columns_is_named():
    chunk = Chunk(TSV, 0, 40, (b"eins\t0.9\tone\nzwei\t0.8\nd\xffrei\t0.7\tthree\n",))
    with pytest.raises(DataError, match="byte 0xff") as caught:
        decode_chunk(chunk, drop_invalid=False)
    assert caught.value.where == "a.tsv, line 43"
    chunk = Chunk(TSV, 0, 40, (b"eins\t0.9\tone\nzwei\t0.8\n",))
    with pytest.raises(DataError, match="2 columns, but .* columns 3 and 1") as caught:
        decode_chunk(chunk, drop_invalid=False)
    assert caught.value.where == "a.tsv, line 42"
    assert decode_chunk(chunk, drop_invalid=True).invalid == {1: "too few columns"}
