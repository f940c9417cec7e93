"""What a machine needs for a run, as directories named by their content."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from unisono.atomic import sha256_of
from unisono.config.load import SHIPPED_CONFIGS, load_settings, read_toml
from unisono.config.settings import Settings
from unisono.corpus.manifest import MANIFEST
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.launch.bring.room import on_disk
from unisono.launch.bring.trees import FileEntry, tree_hash
from unisono.records.layout import RunDirectory

NAME_DIGITS = 16
_UNUSUAL = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True)
class BroughtFile:
    """A file: its name there, its size and hash, and its content or where it is here."""

    name: str
    size: int
    sha256: str
    content: Path | bytes

    @property
    def entry(self) -> FileEntry:
        """Return what the machine is told about it."""
        return self.name, self.size, self.sha256


@dataclass(frozen=True)
class BroughtTree:
    """A directory to bring: `what` it is for people, and its files."""

    kind: str
    what: str
    files: tuple[BroughtFile, ...]

    @property
    def name(self) -> str:
        """Return its name on the machines, which changes with its content."""
        return f"{self.kind}-{tree_hash([one.entry for one in self.files])[:NAME_DIGITS]}"

    @property
    def bytes(self) -> int:
        """Return the size of all files."""
        return sum(one.size for one in self.files)

    @property
    def bytes_on_disk(self) -> int:
        """Return what all files take on a disk."""
        return on_disk(one.size for one in self.files)


@dataclass(frozen=True)
class RunPayload:
    """What a run needs but code and packages, and how it is started with that.

    Relative to the directory on the machines: `config` is the config file there, `overrides`
    what `--set` needs to say.
    """

    trees: tuple[BroughtTree, ...]
    config: Path
    overrides: tuple[str, ...]
    settings: Settings


def file_of(name: str, content: bytes) -> BroughtFile:
    """Return a small file."""
    return BroughtFile(name, len(content), hashlib.sha256(content).hexdigest(), content)


def file_at(name: str, path: Path) -> BroughtFile:
    """Return a file of this machine."""
    return BroughtFile(name, path.stat().st_size, sha256_of(path), path)


def payload_of(config: Path, overrides: tuple[str, ...], settings: Settings) -> RunPayload:
    """Return what the run needs that `config` and `overrides` describe here."""
    path = config if config.exists() else SHIPPED_CONFIGS / config.name
    chosen = BroughtTree("config", "the config", (file_of(path.name, path.read_bytes()),))
    corpus = _corpus(Path(settings.corpus.directory))
    further = [f"corpus.directory={corpus.name}", f"run={run_there(Path(settings.run))}"]
    trees = [chosen, corpus]
    if settings.start.from_:
        start, changes = _start(settings)
        trees.append(start)
        further += changes
    whole = (*overrides, *further)
    there = load_settings(config, whole)
    return RunPayload(tuple(trees), Path(chosen.name) / path.name, whole, there)


def run_there(run: Path) -> str:
    """Return the run directory on the machines: that of another project is another one."""
    machine = Path("/etc/machine-id")
    owner = machine.read_text("ascii") if machine.is_file() else ""
    whole = f"{owner}\0{run.absolute()}"
    digest = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"runs/{_UNUSUAL.sub('-', run.name) or 'run'}-{digest}"


def _corpus(directory: Path) -> BroughtTree:
    corpus = open_corpus(directory)
    files = [
        BroughtFile(name, file.bytes, file.sha256, directory / name)
        for name, file in corpus.manifest.files.items()
    ]
    manifest = file_at(MANIFEST, directory / MANIFEST)
    return BroughtTree("corpus", "the prepared corpus", (*files, manifest))


def _start(settings: Settings) -> tuple[BroughtTree, list[str]]:
    """Return the weights to start from with their old test set, and the settings for them."""
    start = settings.start
    origin = RunDirectory(Path(start.from_))
    model = origin.bundle if origin.bundle.is_dir() else origin.path
    if not model.is_dir():
        raise ConfigError(
            f"there is no directory {model}", where="[start] from", fix="name a run or bundle"
        )
    files = [
        file_at(f"model/{path.relative_to(model).as_posix()}", path) for path in _files(model)
    ]
    old = [
        file_at(f"old_test.{number}", path) for number, path in enumerate(_old_test(settings))
    ]
    tree = BroughtTree("start", "the weights to start from", (*files, *old))
    changes = [f"start.from={tree.name}/model"]
    if old:
        names = msgspec.json.encode([f"{tree.name}/{one.name}" for one in old]).decode()
        changes.append(f"start.old_test={names}")
    return tree, changes


def _old_test(settings: Settings) -> list[Path]:
    if settings.start.old_test:
        return [Path(name) for name in settings.start.old_test]
    config = RunDirectory(Path(settings.start.from_)).config
    test = read_toml(config).get("data", {}).get("test", {}) if config.is_file() else {}
    found = [Path(test.get(side, "")) for side in ("source", "target")]
    return found if all(path.is_file() for path in found) else []


def _files(directory: Path) -> Iterable[Path]:
    return (path for path in sorted(directory.rglob("*")) if path.is_file())
