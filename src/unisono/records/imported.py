"""`imported.json`: this run was made by another trainer, and what its records do not tell.

A run directory that `unisono import` wrote has this file. Its events hold what was found, and
nothing else: numbers that are not known are null, counts that are not known are 0.
"""

from contextlib import suppress
from pathlib import Path

import msgspec

NAME = "imported.json"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run comes from, and what the one who imported it said about it.

    `every_steps` is how many updates lie between two records: a step event stands for the last
    of them, and its seconds are their mean. `clock` says whether times are those of a clock or
    count from 0, `ended` whether the records say that training came to its end. Of `processes`,
    `machines`, `parameters` and `link_bits_per_second` 0 means not known; `told` names those
    that were given on the command line. `link_measured` says that the rate of the link was
    measured, not bought. `notes` say in words what has to be known to read the numbers.
    """

    trainer: str
    source: str
    every_steps: int = 0
    clock: bool = False
    ended: bool = False
    processes: int = 0
    machines: int = 0
    parameters: int = 0
    device: str = ""
    link_bits_per_second: float = 0.0
    link_measured: bool = False
    told: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    format: int = 1


def read_imported(run: Path) -> Imported | None:
    """Return what is known of where the run comes from, or None if it is one of our own."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode((run / NAME).read_bytes(), type=Imported)
    return None


def imported_bytes(imported: Imported) -> bytes:
    """Return the content of the file."""
    return msgspec.json.format(msgspec.json.encode(imported), indent=2) + b"\n"
