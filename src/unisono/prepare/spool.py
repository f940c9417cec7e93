"""Clean text on its way to the encoder: on disk, because it may not fit into memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SpooledText:
    """The kept pairs of a chunk, in a file: all source lines, then all target lines.

    They are normalised, so that nothing in them ends a line.
    """

    path: Path
    pairs: int

    def read(self) -> tuple[list[str], list[str]]:
        """Return the source and the target lines."""
        lines = self.path.read_bytes().decode("utf-8").split("\n")
        return lines[: self.pairs], lines[self.pairs : 2 * self.pairs]


def write_spool(path: Path, source: Sequence[str], target: Sequence[str]) -> SpooledText:
    """Write some pairs to `path`."""
    path.write_bytes("\n".join([*source, *target, ""]).encode("utf-8"))
    return SpooledText(path, len(source))
