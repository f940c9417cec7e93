"""Room on the disk: enough before the work begins, and what to say when it runs out."""

import errno
import shutil
from pathlib import Path

from unisono.config.settings import CorpusSettings
from unisono.errors import DataError
from unisono.prepare.first_pass.decompress import likely_text_bytes
from unisono.prepare.inputs import RawPair
from unisono.prepare.job import PrepareJob
from unisono.units import amount_of_bytes

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_BYTES_PER_LINE = 150
_ALWAYS = 1 << 20
_MAKE_ROOM = "make room there, or set corpus.directory to another disk"


def text_bytes_of(inputs: list[RawPair]) -> int:
    """Guess how much text the files hold."""
    files = [path for raw in inputs for path in raw.files]
    return sum(likely_text_bytes(path.stat().st_size, path.suffix) for path in files)


def room_needed(inputs: list[RawPair], settings: CorpusSettings) -> int:
    """Guess the bytes that a preparation needs at its peak.

    That is when all clean text lies on the disk, and the sample to learn from beside it.
    Ids take about a half of the room of the text they replace.
    """
    text = text_bytes_of(inputs)
    return text + min(text, settings.learning_lines * _BYTES_PER_LINE) + _ALWAYS


def check_room(directory: Path, inputs: list[RawPair], settings: CorpusSettings) -> None:
    """Raise an error if the text cannot fit into `directory`."""
    needed, free = room_needed(inputs, settings), shutil.disk_usage(directory).free
    if needed > free:
        raise DataError(
            f"about {amount_of_bytes(needed)} are needed while the corpus is made, and "
            f"{amount_of_bytes(free)} are free",
            where=str(directory.absolute()),
            fix=_MAKE_ROOM,
        )


def cannot_write(assignment: PrepareJob, error: OSError) -> DataError:
    """Say why a corpus cannot be written and, if that is it, how much room it needs."""
    path = assignment.path
    if error.errno not in _FULL:
        return DataError(
            f"{path} cannot be written: {error}",
            where="corpus.directory",
            fix="give permission there, or choose another directory",
        )
    needed = amount_of_bytes(room_needed(assignment.inputs, assignment.settings))
    return DataError(
        f"the disk is full; about {needed} are needed while the corpus is made",
        where=str(path.parent.absolute()),
        fix=_MAKE_ROOM,
    )
