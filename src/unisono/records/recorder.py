"""The one who writes events down."""

from pathlib import Path

from unisono.jsonl import LineWriter
from unisono.records.events import AnyEvent, to_line
from unisono.records.layout import RunDirectory
from unisono.records.tensorboard import TensorBoardSink


class Recorder:
    """Writes one process's events; the leading process's go to TensorBoard, too."""

    def __init__(self, run: Path, rank: int, *, leads: bool) -> None:
        directory = RunDirectory(run)
        self._lines = LineWriter(directory.events(rank))
        self._board = TensorBoardSink(directory.tensorboard) if leads else None

    def write(self, event: AnyEvent) -> None:
        """Record `event`."""
        self._lines.write(to_line(event))
        if self._board is not None:
            self._board.write(event)

    def close(self) -> None:
        """Close the files."""
        self._lines.close()
        if self._board is not None:
            self._board.close()
