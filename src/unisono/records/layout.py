"""Where everything is in a run directory."""

import re
from collections.abc import Iterator
from pathlib import Path

from unisono.errors import RunError

STREAM = "stream"  # what was fetched from where, and the output of detached machines


def make_place(place: Path) -> None:
    """Make a directory in a run directory, which must be there."""
    try:
        place.mkdir(exist_ok=True)
    except FileNotFoundError as error:
        # Not its parents: a run directory that was moved away must not reappear half empty.
        raise RunError(
            "the run directory is gone: somebody has moved or removed it",
            where=str(place.parent),
            fix="move it back; then the same command continues from the last checkpoint",
        ) from error


class RunDirectory:
    """The names in a run directory. It creates nothing by itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"  # all settings, with their defaults filled in
        self.environment = path / "environment.json"  # versions, host, devices, commit
        self.corpus = path / "corpus.json"  # the manifest of the corpus
        self.status = path / "status.json"  # the state of the run
        self.exchange = path / "exchange.json"  # which strategy `auto` chose, and why
        self.lock = path / "lock"  # locked by the process that writes here
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.samples = path / "samples"  # translations at each validation, of older versions
        self.losses = path / "losses"  # the loss of each validation sentence
        self.loss_tokens = self.losses / "tokens.npy"
        self.bundle = path / "bundle"  # the directory to ship
        self.stream = path / STREAM
        self.start = path / "start"  # a copy of what the run started from

    def events(self, rank: int) -> Path:
        """Return the events of process `rank`."""
        return self.path / "events" / f"rank-{rank:04d}.jsonl"

    def stacks(self, rank: int) -> Path:
        """Return the file of stack traces that process `rank` writes when it has to end."""
        return self.path / "stacks" / f"rank-{rank:04d}.txt"

    def monitor(self, rank: int) -> Path:
        """Return the samples of the machine whose first process is `rank`."""
        return self.path / "monitor" / f"rank-{rank:04d}.jsonl"

    def sample(self, step: int) -> Path:
        """Return the sample translations at `step`."""
        return self.samples / f"step-{step:07d}.tsv"

    def sentence_losses(self, step: int) -> Path:
        """Return the losses of the validation sentences after `step`."""
        return self.losses / f"step-{step:07d}.npy"

    def report(self, suffix: str) -> Path:
        """Return the report with the suffix html, json or md."""
        return self.path / f"report.{suffix}"


def numbered_files(directory: Path, prefix: str, suffix: str) -> Iterator[tuple[int, Path]]:
    """Yield the files named like `rank-0003.jsonl`, in order; skip all others."""
    name = re.compile(rf"{prefix}-([0-9]{{1,12}})\{suffix}")
    for path in sorted(directory.glob(f"{prefix}-*{suffix}")):
        if found := name.fullmatch(path.name):
            yield int(found[1]), path
