"""The environments on a machine: packages by lock files, and a Python that finds them.

An environment `environment-…` holds what the lock files name. A Python `python-…` joins one
with one version of Unisono's code, so a new version needs no new packages, and leaves a run
that goes on with the old one alone. Only Python's own library.
"""

import os
import re
import select
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.errors import RunError
from unisono.launch.bring.trees import Trees

PIP = "pip.zip"
SAY_EVERY_SECONDS = 5.0
LAST_LINES = 30
_NO_FILE = re.compile(r"No matching distribution found for (\S+)")


@dataclass(frozen=True)
class Wanted:
    """An environment: where pip, the lock files and perhaps wheels are.

    Of `locks` each is one file, or several of which the first serves that pip finds files for.
    """

    name: str
    material: Path
    locks: tuple[tuple[str, ...], ...]
    offline: bool


def build(trees: Trees, wanted: Wanted, progress: Callable[[str], None]) -> bool:
    """Make an environment unless it is there, unchanged; return whether it was made."""
    place = trees.base / wanted.name
    if is_unchanged(place, trees.read(wanted.name)):
        return False
    _make_way(trees, wanted.name)
    making = trees.unfinished / wanted.name
    shutil.rmtree(making, ignore_errors=True)
    try:
        venv.EnvBuilder(symlinks=True).create(making)
        for choices in wanted.locks:
            _install(making, wanted, list(choices), progress)
        _drop_empty_directories(making)
        trees.write(wanted.name, signatures(making))
        making.replace(place)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        trees.listing(wanted.name).unlink(missing_ok=True)
        raise
    return True


def signatures(place: Path) -> dict[str, list[Any]]:
    """Return size and time of each file below `place`, but for what Python compiles itself."""
    found = {}
    for path in _files(place):
        status = path.lstat()
        found[str(path.relative_to(place))] = [status.st_size, status.st_mtime_ns]
    return found


def is_unchanged(place: Path, listed: dict[str, list[Any]]) -> bool:
    """Return whether all listed files are as they were; further ones do not matter."""
    found = signatures(place) if listed else {}
    return bool(found) and all(found.get(name) == known for name, known in listed.items())


def _files(place: Path) -> Iterator[Path]:
    for directory, below, names in os.walk(place):
        links = [name for name in below if Path(directory, name).is_symlink()]
        if not directory.endswith("/__pycache__"):
            yield from (Path(directory, name) for name in (*names, *links))


def _drop_empty_directories(place: Path) -> None:
    """Remove directories without files: a listing has only files, and these would stay."""
    for directory, _, _ in os.walk(place, topdown=False):
        with suppress(OSError):
            Path(directory).rmdir()


def _make_way(trees: Trees, name: str) -> None:
    """Remove an environment that is not as it was; what others put there is theirs."""
    trees.forget(name)
    if (trees.base / name).exists():
        raise RunError(
            "an environment was changed, and has files that are not Unisono's",
            where=str(trees.base / name),
            fix="remove that directory there, if nobody needs it",
        )


def join(trees: Trees, name: str, code: str, packages: str) -> Path:
    """Make a Python that finds `code` and the environment `packages`; return its path."""
    place = trees.base / name
    python = place / "bin" / "python"
    if is_unchanged(place, trees.read(name)):
        return python
    _make_way(trees, name)
    venv.EnvBuilder(symlinks=True).create(place)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    below = Path("lib") / version / "site-packages"
    # A line that begins with "import" is run; so the .pth files of packages count, too.
    lines = [f"import site; site.addsitedir({str(trees.base / packages / below)!r})"]
    (place / below / "brought.pth").write_text(
        "\n".join([str(trees.base / code), *lines, ""]), "utf-8"
    )
    _drop_empty_directories(place)
    trees.write(name, signatures(place))
    return python


def _install(
    making: Path, wanted: Wanted, choices: list[str], progress: Callable[[str], None]
) -> None:
    lock, *others = choices
    code, lines = _pip(making, wanted, lock, progress)
    if not code:
        return
    if others and any(_NO_FILE.search(line) for line in lines):
        progress(f"pip finds no files for {lock}; trying {others[0]}")
        _install(making, wanted, others, progress)
        return
    said = [line for line in lines if line.startswith("ERROR:")] or lines[-1:] or ["nothing"]
    text = " ".join(line.removeprefix("ERROR:").strip() for line in said)
    if "No space left" in text:
        raise OSError(28, "No space left on device", str(wanted.material))
    raise RunError(
        f"pip cannot install {lock}: {text[:500]}",
        where=str(wanted.material / lock),
        fix="let this machine reach a package index, or bring the packages with --offline",
    )


def _pip(
    making: Path, wanted: Wanted, lock: str, progress: Callable[[str], None]
) -> tuple[int, list[str]]:
    """Run pip on a lock file; it writes nothing outside of the directory."""
    temporary = making.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    offline = ["--isolated", "--no-index", f"--find-links={wanted.material}"]
    words = [making / "bin" / "python", "-I", wanted.material / PIP, "install"]
    words += ["--no-deps", "--require-hashes", "--no-compile", "--no-cache-dir", "--no-input"]
    words += ["--disable-pip-version-check", "--progress-bar=off", "--no-color"]
    words += [*(offline if wanted.offline else []), "--requirement", wanted.material / lock]
    process = subprocess.Popen(
        list(map(str, words)),
        env={**_without_python(), "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        lines = _follow(process, progress)
        return process.wait(), lines
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
        shutil.rmtree(temporary, ignore_errors=True)


def _without_python() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _follow(process: subprocess.Popen[bytes], progress: Callable[[str], None]) -> list[str]:
    """Read what a program says to its end; tell now and then what it is doing."""
    lines: list[str] = []
    pending, began, told = b"", time.monotonic(), 0.0
    stream = process.stdout
    while stream is not None:
        if select.select([stream], [], [], SAY_EVERY_SECONDS)[0]:
            data = os.read(stream.fileno(), 65536)
            if not data:
                break
            *whole, pending = (pending + data).split(b"\n")
            lines += [line.decode("utf-8", "replace").strip() for line in whole]
            lines = [line for line in lines if line][-LAST_LINES:]
        if time.monotonic() - told > SAY_EVERY_SECONDS:
            told = time.monotonic()
            last = f": {lines[-1][:70]}" if lines else ""
            progress(f"installing packages, {told - began:.0f} s{last}")
    return lines
