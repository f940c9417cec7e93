"""The files of a checkpoint: what was recorded, what lies on the disk, what it should weigh."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from unisono.diagnose.case import Case
from unisono.records.layout import RunDirectory

WEIGHTS, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
EXCHANGE = "exchange.safetensors"
PROGRESS, MANIFEST = "progress.json", "manifest.json"
BYTES_PER_NUMBER = 4


@dataclass(frozen=True)
class Files:
    """The newest checkpoint: its name, its files with their bytes, and who says so."""

    name: str
    sizes: dict[str, int]
    source: str

    @property
    def bytes(self) -> int:
        """Return the size of all files together."""
        return sum(self.sizes.values())


def newest_files(case: Case) -> Files | None:
    """Return the newest checkpoint, from the disk if it is still there, else as recorded."""
    saved = case.run.saves[-1] if case.run.saves else None
    on_disk = _on_disk(case)
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


def _on_disk(case: Case) -> dict[str, dict[str, int]]:
    found = {}
    for manifest in RunDirectory(case.run.path).checkpoints.glob(f"step-*/{MANIFEST}"):
        with suppress(FileNotFoundError):  # a run that goes on has just removed it
            files = sorted(path for path in manifest.parent.iterdir() if path.is_file())
            found[manifest.parent.name] = {path.name: path.stat().st_size for path in files}
    return found
