"""Clean text on its way to the encoder: on disk, because it may not fit into memory."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self


class Spool:
    """The kept pairs of one block, written once and read as often as needed.

    Lines are normalised, so that nothing in them ends a line. A context manager while it
    is written.
    """

    def __init__(self, directory: Path, block: str) -> None:
        self.block = block
        self.pairs = 0
        self._paths = (directory / f"{block}.source", directory / f"{block}.target")
        self._files = tuple(path.open("wb") for path in self._paths)

    def append(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Write some pairs."""
        for file, lines in zip(self._files, (source, target), strict=True):
            file.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        self.pairs += len(source)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files:
            file.close()

    def lines(self, every: int = 1) -> Iterator[str]:
        """Yield both lines of every n-th pair, beginning with the first."""
        with self._paths[0].open("rb") as source, self._paths[1].open("rb") as target:
            for pair in islice(zip(source, target, strict=True), 0, None, every):
                for line in pair:
                    yield line[:-1].decode("utf-8")

    def batches(self, size: int) -> Iterator[tuple[list[str], list[str]]]:
        """Yield the pairs, `size` at a time."""
        with self._paths[0].open("rb") as source, self._paths[1].open("rb") as target:
            while lines := list(islice(source, size)):
                yield _decoded(lines), _decoded(list(islice(target, size)))


def _decoded(lines: list[bytes]) -> list[str]:
    return b"".join(lines).decode("utf-8").split("\n")[:-1]
