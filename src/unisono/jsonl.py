"""Files with one JSON object per line, written by processes that may be killed."""

import os
from collections.abc import Iterator
from pathlib import Path


class LineWriter:
    """Append whole lines to a file, each in one system call: only the last can be torn."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if _ends_torn(path):
            os.write(self._file, b"\n")

    def write(self, line: bytes) -> None:
        """Append `line`, which contains no line break."""
        os.write(self._file, line + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of `path`; skip a last line without its line feed."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and line.strip():
                yield line


def _ends_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
