"""The names and number types in a corpus directory."""

from typing import Any, Literal

import numpy as np

Side = Literal["source", "target"]

FORMAT = 1
MANIFEST = "manifest.json"
SIDES: tuple[Side, Side] = ("source", "target")
OFFSET_TYPE = np.dtype("<i8")
HASH_TYPE = np.dtype("<u8")


def ids_file(block: str, side: Side) -> str:
    """Name the file of a block's ids, end to end."""
    return f"{block}.{side}.ids"


def offsets_file(block: str, side: Side) -> str:
    """Name the file that says where in the ids each sentence begins, and the last ends."""
    return f"{block}.{side}.offsets"


def hashes_file(block: str) -> str:
    """Name the file of a training block's hashes, one for the text of each pair."""
    return f"{block}.hashes"


def text_file(split: str, side: Side) -> str:
    """Name the file of a held-out set's original lines."""
    return f"{split}.{side}.txt"


def id_type(vocabulary: int) -> np.dtype[Any]:
    """Return the smallest type that holds every id: 2 bytes up to 65,536 pieces, else 4."""
    return np.dtype("<u2") if vocabulary <= 1 << 16 else np.dtype("<u4")
