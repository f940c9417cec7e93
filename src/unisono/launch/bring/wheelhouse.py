"""The lock files of an environment, and with `--offline` the files that they name."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from unisono import atomic
from unisono.errors import ConfigError, RunError
from unisono.launch.bring.environment import PIP
from unisono.launch.bring.package import this_pip
from unisono.launch.bring.payload import (
    NAME_DIGITS,
    BroughtFile,
    BroughtTree,
    file_at,
    file_of,
)
from unisono.launch.bring.room import on_disk

LOCKS = Path(__file__).parents[2] / "locks"
ALWAYS, ON_CPU, ON_GPU = "requirements.lock", "requirements-cpu.lock", "requirements-cuda.lock"
OLDEST_GLIBC = 5
_FILES = "files.json"
_PINNED = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)
_LIBC = re.compile(r"2\.(\d+)")


@dataclass(frozen=True)
class Platform:
    """For what packages are made: "3.11", "x86_64", and glibc's version."""

    python: str
    machine: str
    libc: str

    @property
    def is_here(self) -> bool:
        """Return whether this machine is such a one."""
        here = ".".join(platform.python_version_tuple()[:2])
        return (here, platform.machine()) == (self.python, self.machine)

    @property
    def options(self) -> list[str]:
        """Return the options of `pip download` for this platform."""
        if self.is_here:
            return []
        found = _LIBC.fullmatch(self.libc)
        newest = int(found[1]) if found else 17
        names = [f"manylinux_2_{minor}" for minor in range(newest, OLDEST_GLIBC - 1, -1)]
        tags = [*names, "manylinux2014", "manylinux2010", "manylinux1", "linux"]
        version = self.python.replace(".", "")
        words = [f"--python-version={self.python}", "--implementation=cp", f"--abi=cp{version}"]
        return [*words, "--abi=abi3", "--abi=none"] + [
            f"--platform={tag}_{self.machine}" for tag in tags
        ]


@dataclass(frozen=True)
class EnvironmentPlan:
    """An environment: its name, pip and lock files (and wheels) as a directory, its locks."""

    name: str
    material: BroughtTree
    locks: tuple[tuple[str, ...], ...]
    offline: bool

    @property
    def installed_bytes(self) -> int:
        """Return what the installed packages take on a disk, as far as that is known here."""
        paths = [one.content for one in self.material.files if isinstance(one.content, Path)]
        if paths:
            return sum(map(_unpacked_bytes, paths))
        locks = {one.name: one.content for one in self.material.files}
        texts = [locks[group[0]] for group in self.locks]
        return sum(_bytes_here(text.decode()) for text in texts if isinstance(text, bytes))


def lock_choices(given: Sequence[Path], *, gpu: bool) -> tuple[tuple[Path, ...], ...]:
    """Return the lock files; of some, the first counts whose files can be found."""
    if given:
        for path in given:
            if not path.is_file():
                raise ConfigError(
                    f"there is no lock file {path}", where="--lock", fix="check the path"
                )
        return tuple((path,) for path in given)
    torch = (LOCKS / ON_GPU,) if gpu else (LOCKS / ON_CPU, LOCKS / ON_GPU)
    return (LOCKS / ALWAYS,), torch


def plan_environment(
    choices: tuple[tuple[Path, ...], ...],
    made_for: Platform,
    *,
    offline: bool,
    fetch: bool = True,
) -> EnvironmentPlan:
    """Return what an environment is made of; offline, fetch its files to here first.

    Without `fetch`, those that are not here yet are left out.
    """
    if offline and (fetch or all(_is_fetched(group, made_for) for group in choices)):
        choices, wheels = _wheels(choices, made_for)
    else:
        wheels = ()
    locks = {path: f"{number}-{path.name}" for number, path in enumerate(sum(choices, ()))}
    texts = [file_of(name, path.read_bytes()) for path, name in locks.items()]
    material = BroughtTree(
        "packages", "pip and packages", (file_of(PIP, this_pip()), *texts, *wheels)
    )
    named = tuple(tuple(locks[path] for path in group) for group in choices)
    key = _key(made_for, named, {one.name: one.sha256 for one in texts})
    return EnvironmentPlan(f"environment-{key}", material, named, offline)


def _unpacked_bytes(wheel: Path) -> int:
    with zipfile.ZipFile(wheel) as archive:
        return on_disk(one.file_size for one in archive.infolist())


def _bytes_here(lock: str) -> int:
    """Return what the packages of a lock file take here, if they are installed here."""
    total = 0
    for name, version in _PINNED.findall(lock):
        with suppress(PackageNotFoundError):
            found = distribution(name)
            if found.version == version:
                total += on_disk(file.size or 0 for file in found.files or ())
    return total


def _key(made_for: Platform, *parts: object) -> str:
    what = json.dumps([made_for.python, made_for.machine, *parts], sort_keys=True)
    return hashlib.sha256(what.encode()).hexdigest()[:NAME_DIGITS]


def _wheels(
    choices: tuple[tuple[Path, ...], ...], made_for: Platform
) -> tuple[tuple[tuple[Path, ...], ...], tuple[BroughtFile, ...]]:
    """Return the locks that serve, and their files."""
    chosen, files = [], []
    for group in choices:
        lock, found = _first_found(group, made_for)
        chosen.append((lock,))
        files += found
    return tuple(chosen), tuple(files)


def _is_fetched(group: tuple[Path, ...], made_for: Platform) -> bool:
    return any((_place_of(lock, made_for) / _FILES).is_file() for lock in group)


def _place_of(lock: Path, made_for: Platform) -> Path:
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    return wheelhouse() / _key(made_for, digest)


def _first_found(group: tuple[Path, ...], made_for: Platform) -> tuple[Path, list[BroughtFile]]:
    said = ""
    for lock in group:
        place = _place_of(lock, made_for)
        if not (place / _FILES).is_file():
            said = _download(lock, made_for, place)
        if (place / _FILES).is_file():
            return lock, _listed(place)
    raise RunError(
        f"the packages of {group[-1].name} cannot be fetched: {said}",
        where=str(group[-1]),
        fix="let this machine reach a package index, or point PIP_FIND_LINKS to the wheels",
    )


def wheelhouse() -> Path:
    """Return where this machine keeps what it has fetched for others."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache else Path.home() / ".cache") / "unisono-wheelhouse"


def _download(lock: Path, made_for: Platform, place: Path) -> str:
    """Fetch the files of a lock into `place`; return why that failed, or nothing."""
    shutil.rmtree(place, ignore_errors=True)
    with atomic.new_directory(place) as making:
        words = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
        words += ["--only-binary=:all:", "--disable-pip-version-check", "--no-input"]
        words += ["--quiet", "--progress-bar=off", *made_for.options]
        words += ["--dest", str(making), "--requirement", str(lock)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if not done.returncode:
            found = {path.name: file_at(path.name, path) for path in making.glob("*.whl")}
            listed = {name: [one.size, one.sha256] for name, one in sorted(found.items())}
            (making / _FILES).write_text(json.dumps(listed), "utf-8")
    if done.returncode:
        shutil.rmtree(place, ignore_errors=True)
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        return " ".join(said)[:500] or "pip gives no reason"
    return ""


def _listed(place: Path) -> list[BroughtFile]:
    listed = json.loads((place / _FILES).read_bytes())
    return [
        BroughtFile(name, size, digest, place / name) for name, (size, digest) in listed.items()
    ]
