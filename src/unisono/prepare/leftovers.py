"""What killed preparations left."""

import re
import shutil
from pathlib import Path

from unisono.atomic import TEMPORARY


def remove_leftovers(path: Path) -> None:
    """Remove what killed preparations of `path` left, and of no other corpus next to it."""
    leftover = re.compile(re.escape(f"{TEMPORARY}{path.name}-") + r"\d+")
    for entry in path.parent.iterdir():
        if leftover.fullmatch(entry.name):
            shutil.rmtree(entry)
