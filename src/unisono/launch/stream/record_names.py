"""Which files of a run directory travel between machines, and how.

What comes over a connection is data of another machine: a name that is not one of these, with
its exact spelling, is refused. So no name can lead out of the run directory.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from unisono.errors import DataError
from unisono.records.layout import STREAM

# Files that only grow, by lines: fetched by offset, and never cut within a line.
_LINES = re.compile(
    rf"(?:events|monitor)/rank-\d{{4,9}}\.jsonl|{STREAM}/node-\d{{4}}\.log", re.ASCII
)
# Files that only grow, of one writer each.
_GROWING = re.compile(r"tensorboard/events\.out\.tfevents\.[A-Za-z0-9._-]{1,200}", re.ASCII)
# Small files that are replaced as a whole.
_WHOLE = re.compile(
    r"config\.toml|(?:environment|corpus|status|exchange)\.json"
    r"|samples/step-\d{7,12}\.tsv|losses/(?:step-\d{7,12}|tokens)\.npy"
    rf"|stacks/rank-\d{{4,9}}\.txt|{STREAM}/node-\d{{4}}\.json",
    re.ASCII,
)
# What the leading machine gets of the others: all that a diagnosis reads.
_RELAYED = re.compile(r"(?:events|monitor)/rank-\d{4,9}\.jsonl", re.ASCII)
_PLACES = (
    *("*.toml", "*.json", "events/*", "monitor/*", "tensorboard/*", "samples/*", "losses/*"),
    *("stacks/*", f"{STREAM}/node-*"),
)
_NODE = re.compile(rf"{STREAM}/node-(\d{{4}})\..*", re.ASCII)
MOST_NAMES = 100_000


def is_lines(name: str) -> bool:
    """Return whether a file grows by whole lines."""
    return _LINES.fullmatch(name) is not None


def grows(name: str) -> bool:
    """Return whether a file only ever grows."""
    return is_lines(name) or _GROWING.fullmatch(name) is not None


def is_whole(name: str) -> bool:
    """Return whether a file is small and replaced as a whole."""
    return _WHOLE.fullmatch(name) is not None


def is_relayed(name: str) -> bool:
    """Return whether the leading machine gets a copy of this file of the others."""
    return _RELAYED.fullmatch(name) is not None


def node_of(name: str) -> int | None:
    """Return whose output or state a file holds: the number of a node, if it is of one."""
    found = _NODE.fullmatch(name)
    return int(found[1]) if found else None


def check_name(name: str, *, growing: bool) -> None:
    """Raise a DataError unless `name` is that of a file that travels in this way."""
    if not (grows(name) if growing else is_whole(name)):
        raise DataError(
            f"a machine named a file that does not travel: {name[:200]!r}",
            where="the connection to it",
            fix="use the same version of Unisono on all machines",
        )


def names_in(run: Path) -> Iterator[str]:
    """Yield the names of the files at `run` that travel; links do not."""
    for place in _PLACES:
        for path in sorted(run.glob(place)):
            name = path.relative_to(run).as_posix()
            known = grows(name) or is_whole(name)
            if known and path.is_file() and not path.is_symlink():
                yield name
