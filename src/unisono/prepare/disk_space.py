"""Disk space: check before the work begins that there is enough, and explain a full disk."""

import errno
import shutil
from pathlib import Path

from unisono.config.settings import CorpusSettings
from unisono.decompress import likely_text_bytes
from unisono.errors import DataError
from unisono.prepare.job import PrepareJob, RawPair
from unisono.units import amount_of_bytes

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_BYTES_PER_LINE = 150
_OVERHEAD = 1 << 20
_FREE_SPACE = "free some space there, or set corpus.directory to another disk"


def text_bytes_of(inputs: list[RawPair]) -> int:
    """Estimate how many bytes of text the files hold."""
    files = [path for raw in inputs for path in raw.files]
    return sum(likely_text_bytes(path.stat().st_size, path.suffix) for path in files)


def bytes_needed(inputs: list[RawPair], settings: CorpusSettings) -> int:
    """Estimate how much disk space a preparation takes at its peak.

    The peak comes with all clean text on disk and the sample to learn from next to it. Ids
    take about half the space of the text they replace.
    """
    text = text_bytes_of(inputs)
    return text + min(text, settings.learning_lines * _BYTES_PER_LINE) + _OVERHEAD


def check_disk_space(directory: Path, inputs: list[RawPair], settings: CorpusSettings) -> None:
    """Raise an error if the text cannot fit into `directory`."""
    needed, free = bytes_needed(inputs, settings), shutil.disk_usage(directory).free
    if needed > free:
        raise DataError(
            f"preparing the corpus needs about {amount_of_bytes(needed)} of disk space, and "
            f"{amount_of_bytes(free)} are free",
            where=str(directory.absolute()),
            fix=_FREE_SPACE,
        )


def cannot_write(job: PrepareJob, error: OSError) -> DataError:
    """Say why a corpus cannot be written; for a full disk, how much space it needs."""
    path = job.path
    if error.errno not in _FULL:
        return DataError(
            f"{path} cannot be written: {error}",
            where="corpus.directory",
            fix="check the permissions there, or choose another directory",
        )
    needed = amount_of_bytes(bytes_needed(job.inputs, job.settings))
    return DataError(
        f"the disk is full; preparing the corpus needs about {needed}",
        where=str(path.parent.absolute()),
        fix=_FREE_SPACE,
    )
