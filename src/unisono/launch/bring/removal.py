"""The program that removes from a machine what was brought there, and nothing else.

The launcher sends this file as an argument of `python -I -c`, as it does with `bootstrap`. Only
files that a listing names go, with what Python compiled from them; then directories that are
empty. It opens every directory without following links, so nothing outside is reached.
"""

import fcntl
import json
import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

RUN = re.compile(r"[\w.-]+-[0-9a-f]{8}", re.ASCII)
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
MOST_NAMED = 20
RUNS = ".runs"  # which Python each run was launched with


def main() -> None:
    """Answer one line with one line."""
    wanted = json.loads(sys.stdin.readline())
    base = Path(wanted["directory"]).expanduser().resolve()
    reply = {"token": wanted["token"], "base": str(base)}
    try:
        reply.update(answer(base, runs=wanted["runs"], look=wanted["look"]))
    except (OSError, ValueError) as error:
        what = f"not everything could be removed: {error}"
        reply["refused"] = {"what": what, "where": str(base), "fix": "look at it there"}
    sys.stdout.write(json.dumps(reply) + "\n")


def answer(base: Path, *, runs: bool, look: bool) -> "dict[str, Any]":
    """Remove what was brought to `base`, and `runs` with it, or only `look`; say what."""
    listings = sorted((base / "brought").glob("*.json"))
    found = [path.name for path in _runs(base)]
    counted = {path.stem: listed_bytes(path) for path in listings}
    if look or not ((base / "brought").is_dir() or (runs and found)):
        return {"trees": counted, "runs": found, "kept": []}
    if busy := process_of_run(base):
        what = f"a run is going on there (process {busy})"
        fix = "stop it first: unisono attach RUN --stop"
        return {"refused": {"what": what, "where": str(base), "fix": fix}}
    with _alone(base) as is_alone:
        if not is_alone:
            what, fix = "another launch is bringing something there", "wait until it has ended"
            return {"refused": {"what": what, "where": str(base), "fix": fix}}
        _remove(base, listings, runs=runs)
    for name in ("brought", ""):
        with suppress(OSError):
            (base / name).rmdir()
    kept = sorted(path.name for path in base.iterdir()) if base.is_dir() else []
    return {"trees": counted, "runs": found, "kept": kept[:MOST_NAMED]}


def _remove(base: Path, listings: "list[Path]", *, runs: bool) -> None:
    for listing in listings:
        remove_tree(base, listing)
    if not (base / "unfinished").is_symlink():
        shutil.rmtree(base / "unfinished", ignore_errors=True)
    if runs:
        for run in _runs(base):
            shutil.rmtree(run)
    with suppress(OSError):
        (base / "runs").rmdir()
    for name in (RUNS, ".lock"):
        (base / name).unlink(missing_ok=True)


def remove_tree(base: Path, listing: Path) -> None:
    """Remove the files of a listing, and the listing."""
    names = json.loads(listing.read_bytes())["files"]
    _remove_listed(base, listing.stem, list(names))
    listing.unlink()


def _remove_listed(base: Path, tree: str, names: "list[str]") -> None:
    """Remove the files of a directory, and the directories that are empty then."""
    by_directory: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for name in names:
        whole = (tree, *name.split("/"))
        if any(part in ("", ".", "..") for part in whole):
            raise ValueError(f"{name!r} is not the name of a file")
        by_directory[whole[:-1]].add(whole[-1])
    for parts, files in by_directory.items():
        with _opened(base, parts) as directory:
            if directory >= 0:
                _unlink(directory, files)
    above = {parts[:depth] for parts in by_directory for depth in range(1, len(parts) + 1)}
    for parts in sorted(above, key=len, reverse=True):
        with _opened(base, parts[:-1]) as directory, suppress(OSError):
            if directory >= 0:
                os.rmdir(parts[-1], dir_fd=directory)


def _unlink(directory: int, files: "set[str]") -> None:
    for name in files:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
    sources = {name[:-3] for name in files if name.endswith(".py")}
    try:
        cache = os.open("__pycache__", OPEN_DIRECTORY, dir_fd=directory)
    except OSError:
        return
    try:
        for name in os.listdir(cache):  # noqa: PTH208 -- of an open directory
            if name.endswith(".pyc") and name.partition(".")[0] in sources:
                os.unlink(name, dir_fd=cache)
    finally:
        os.close(cache)
    with suppress(OSError):
        os.rmdir("__pycache__", dir_fd=directory)


@contextmanager
def _opened(base: Path, parts: "tuple[str, ...]") -> Iterator[int]:
    """Yield a directory below `base`, opened without following links, or -1."""
    opened = [os.open(base, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for part in parts:
            opened.append(os.open(part, OPEN_DIRECTORY, dir_fd=opened[-1]))
        found = opened[-1]
    except OSError:
        found = -1
    try:
        yield found
    finally:
        for one in opened:
            os.close(one)


@contextmanager
def _alone(base: Path) -> Iterator[bool]:
    with (base / ".lock").open("wb") as held:
        try:
            fcntl.flock(held.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _runs(base: Path) -> "list[Path]":
    found = (base / "runs").glob("*") if not (base / "runs").is_symlink() else ()
    return sorted(
        one
        for one in found
        if RUN.fullmatch(one.name) and one.is_dir() and not one.is_symlink()
    )


def listed_bytes(listing: Path) -> int:
    """Return the size of all files of a listing."""
    files = json.loads(listing.read_bytes())["files"].values()
    return sum(int(known[0]) for known in files)


def process_of_run(base: Path) -> int:
    """Return a process of a run that goes on, or 0."""
    python = os.fsencode(str(base / "python-"))
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes().startswith(python):
                return int(path.parent.name)
    return 0


if __name__ == "__main__":
    main()
