"""What earlier launches brought to a machine, and no run there needs any more.

`.runs` notes with which Python each run was last launched: whoever fetches its records, or
attaches to it, needs that one, however old it is. Only Python's own library.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from unisono.launch.bring.removal import RUNS, listed_bytes, process_of_run, remove_tree
from unisono.launch.bring.trees import Trees


def note_run(base: Path, run: str, names: Iterable[str]) -> None:
    """Note which directories the run `run` needs, also when it is over."""
    known = {**_runs(base), run: sorted(names)}
    temporary = base / f"{RUNS}.new"
    temporary.write_text(json.dumps(known), "utf-8")
    temporary.replace(base / RUNS)


def unused(trees: Trees, needed: Iterable[str], *, remove: bool) -> dict[str, int]:
    """Return by name the bytes of what nobody needs, and perhaps `remove` it.

    A run that goes on there may need all of it.
    """
    base = trees.base
    if process_of_run(base):
        return {}
    kept = set(needed)
    for run, names in _runs(base).items():
        if (base / run).is_dir():
            kept.update(names)
    listings = {name: trees.listing(name) for name in trees.names() if name not in kept}
    found = {name: listed_bytes(path) for name, path in listings.items()}
    if remove:
        for path in listings.values():
            remove_tree(base, path)
    return found


def _runs(base: Path) -> dict[str, list[str]]:
    with suppress(OSError, ValueError):
        found = json.loads((base / RUNS).read_bytes())
        if isinstance(found, dict):
            return found
    return {}
