"""Is there room on the disk?"""

import shutil
from pathlib import Path

from unisono.errors import DataError
from unisono.units import amount_of_bytes


def check_room(target: Path, needed: int) -> None:
    """Refuse to begin what cannot end: `needed` more bytes have to fit next to `target`."""
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise DataError(
            f"{target.name} needs {amount_of_bytes(needed)} more on the disk,"
            f" and only {amount_of_bytes(free)} are free",
            where=str(target.parent),
            fix="make room, or choose a directory on another disk",
        )
