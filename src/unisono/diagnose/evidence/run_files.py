"""The files of a run: the manifest of its corpus, and its newest checkpoint."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.records.layout import RunDirectory
from unisono.records.view import RunView


class TextFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A file of text. `bytes` is its size on disk, `text_bytes` that of the text in it."""

    name: str = ""
    bytes: int = 0
    text_bytes: int = 0
    lines: int = 0
    sha256: str = ""

    @property
    def size(self) -> int:
        """Return the bytes of text, or of the file where that is not known."""
        return self.text_bytes or self.bytes


class InputFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Two files, line by line translations of each other."""

    split: str = ""
    source: TextFacts = TextFacts()
    target: TextFacts = TextFacts()


class SplitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A set after cleaning."""

    pairs: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    text_bytes: int = 0


class DropFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The pairs dropped for one reason."""

    count: int = 0
    examples: list[tuple[str, str]] = []


class CorpusFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the report says about the corpus."""

    source_language: str = "source"
    target_language: str = "target"
    vocabulary: int = 0
    source_vocabulary: int = 0
    inputs: list[InputFacts] = []
    splits: dict[str, SplitFacts] = {}
    read_pairs: int = 0
    dropped: dict[str, DropFacts] = {}
    settings: dict[str, Any] = {}
    kept_overlap: int = -1

    @property
    def dropped_pairs(self) -> int:
        """Return how many pairs were dropped for all reasons."""
        return sum(drop.count for drop in self.dropped.values())

    def inputs_of(self, split: str) -> list[InputFacts]:
        """Return the files that the set `split` was made from."""
        return [entry for entry in self.inputs if entry.split == split]


def corpus_facts(corpus: dict[str, Any]) -> CorpusFacts | None:
    """Return what `corpus.json` says, or None if it is not a manifest with a training set."""
    try:
        facts = msgspec.convert(corpus, CorpusFacts)
    except msgspec.ValidationError:
        return None
    return facts if "train" in facts.splits else None


WEIGHTS, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
EXCHANGE = "exchange.safetensors"
PROGRESS, MANIFEST = "progress.json", "manifest.json"
BYTES_PER_NUMBER = 4


@dataclass(frozen=True)
class Files:
    """The newest checkpoint: its name, its files with their bytes, and the source of these."""

    name: str
    sizes: dict[str, int]
    source: str

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())


def newest_files(run: RunView) -> Files | None:
    """Return the newest checkpoint, from the disk if it is still there, else as recorded."""
    saved = run.saves[-1] if run.saves else None
    on_disk = _on_disk(run)
    if saved is not None:
        sizes = on_disk.get(saved.name)
        if sizes:
            return Files(saved.name, sizes, "on disk")
        return Files(saved.name, dict(saved.files), "as recorded when it was saved")
    if not on_disk:
        return None
    name = max(on_disk)
    return Files(name, on_disk[name], "on disk")


def moments_of(config: dict[str, Any]) -> int | None:
    """Return how many numbers the optimizer keeps for each weight; None if not known."""
    optimizer = config.get("optimizer")
    if not isinstance(optimizer, dict):
        return None
    if optimizer.get("name") == "sgd":
        return 1 if optimizer.get("momentum") else 0
    return 2 if optimizer.get("name") in ("adam", "adamw") else None


def averages_of(config: dict[str, Any]) -> int:
    """Return how many moving averages of each weight are saved with the optimizer's state."""
    train = config.get("train")
    return 1 if isinstance(train, dict) and train.get("average") else 0


def _on_disk(run: RunView) -> dict[str, dict[str, int]]:
    found = {}
    for manifest in RunDirectory(run.path).checkpoints.glob(f"step-*/{MANIFEST}"):
        with suppress(FileNotFoundError):  # a run that goes on has just removed it
            files = sorted(path for path in manifest.parent.iterdir() if path.is_file())
            found[manifest.parent.name] = {path.name: path.stat().st_size for path in files}
    return found
