"""How much room it takes to bring something, against what is free: said before it is sent.

Only Python's own library: the server on a machine uses this, too.
"""

from collections.abc import Iterable

from unisono.errors import RunError

DISK_BLOCK_BYTES = 4096  # a file takes whole blocks of its disk


def on_disk(sizes: Iterable[int]) -> int:
    """Return what files of these sizes take on a disk."""
    return sum(-(-size // DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES for size in sizes)


def check_room(needed: int, free: int, where: str, advice: str = "make room there") -> None:
    """Raise an error if more is needed than is free; who needs nothing may have a full disk."""
    if needed <= free or not needed:
        return
    raise RunError(
        f"there is no room: what is missing takes {_megabytes(needed)}, and "
        f"{_megabytes(free)} are free",
        where=where,
        fix=f"{advice}, or choose a directory on another disk with --directory",
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
