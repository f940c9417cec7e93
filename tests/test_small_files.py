"""Files that are not what they seem are refused at once, with their name."""

import errno
import os
import subprocess
import sys

import pytest

from unisono.errors import ConfigError, DataError
from unisono.printable import INSTEAD, printable, printable_json, refuse_control
from unisono.small_files import (
    LineWriter,
    json_table,
    read_line,
    read_lines,
    read_parsed,
    toml_table,
)

HOSTILE = "\x1b[2J\x1b]0;t\x07\x9b31m\u202e\r\n"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        *(("fifo", "a pipe or a device"), ("device", "a pipe or a device")),
        *(("directory", "a directory"), ("dangling", "No such file"), ("loop", "Too many")),
    ],
)
def test_what_is_no_regular_file_is_refused_and_does_not_hang(kind, words, tmp_path):
    path = tmp_path / "environment.json"
    made = {
        "fifo": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "directory": path.mkdir,
        "dangling": lambda: path.symlink_to("nowhere"),
        "loop": lambda: path.symlink_to(path.name),
    }
    made[kind]()
    with pytest.raises(DataError, match=rf"environment\.json cannot be read: .*{words}"):
        read_parsed(path, json_table)
    assert read_line(path) == ""


@pytest.mark.parametrize(
    ("parse", "data"),
    [
        (json_table, b"[" * 100_000),
        (json_table, b'{"a": ' + b"9" * 5_000 + b"}"),
        (json_table, b'{"a": "\xff"}'),
        (json_table, b"[]"),
        (json_table, b""),
        (toml_table, b"a = " + b"[" * 100_000),
        (toml_table, b"a = " + b"9" * 5_000),
        (toml_table, b"a." * 200_000 + b"a = 1"),
        (toml_table, b'"a".' * 100_000 + b"a = 1"),
        (toml_table, b"a = 1\n" * 200_000),
        (toml_table, b"\xff"),
    ],
)
def test_absurd_content_is_refused(parse, data, tmp_path):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(DataError, match="file cannot be read"):
        read_parsed(tmp_path / "file", parse)


def test_a_terminal_shows_control_characters_and_obeys_none():
    shown = printable(HOSTILE)
    assert shown.isprintable() and INSTEAD in shown
    assert printable("Größe ‘x’ 日本\u200d\u00a0%") == "Größe ‘x’ 日本\u200d\u00a0%"
    assert printable_json('"\x9b\u202e\U000e0001"') == r'"\u009b\u202e\udb40\udc01"'


@pytest.mark.parametrize("value", ["a\nb", ["a", "b\r"], {"k": {"\x1b": 1}}, ("a\u2028",)])
def test_values_with_control_characters_are_refused(value):
    with pytest.raises(ConfigError, match="control characters"):
        refuse_control(value, where="--partition")
    refuse_control(["über", 3, None, {"a": "b c"}], where="--set")


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "directory"])
def test_lines_are_appended_to_regular_files_only(kind, tmp_path):
    """A link could lead to any file of the user; who opens a pipe to write waits for ever."""
    path, other = tmp_path / "rank-0000.jsonl", tmp_path / "other"
    other.write_text("mine\n")
    made = {
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/full"),
        "link": lambda: path.symlink_to(other),
        "directory": path.mkdir,
    }
    made[kind]()
    with pytest.raises(OSError, match="not a file"):
        LineWriter(path)
    assert other.read_text() == "mine\n"


FULL = """
import errno, resource, sys
from pathlib import Path
from unisono.small_files import LineWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
lines = LineWriter(Path(sys.argv[1]))
lines.write(b"a" * 600)
try:
    lines.write(b"b" * 600)
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.mark.ranks
def test_a_line_that_finds_no_room_is_an_error_and_the_next_stands_alone(tmp_path):
    """The kernel takes what still fits and says so only in a number."""
    path = tmp_path / "rank-0000.jsonl"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True)
    assert done.returncode == errno.EFBIG, done.stderr
    lines = LineWriter(path)
    lines.write(b"c")
    assert list(read_lines(path)) == [b"a" * 600 + b"\n", b"b" * 399 + b"\n", b"c\n"]
