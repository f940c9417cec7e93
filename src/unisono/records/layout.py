"""Where everything is in a run directory."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDirectory:
    """The names in a run directory. It creates nothing by itself."""

    path: Path

    @property
    def config(self) -> Path:
        """Return the settings as resolved, every value spelled out."""
        return self.path / "config.toml"

    @property
    def environment(self) -> Path:
        """Return versions, hosts, devices, interfaces, commit and command line."""
        return self.path / "environment.json"

    @property
    def corpus(self) -> Path:
        """Return the manifest of the corpus the run was trained on."""
        return self.path / "corpus.json"

    @property
    def status(self) -> Path:
        """Return how it stands with the run, in one look."""
        return self.path / "status.json"

    @property
    def exchange(self) -> Path:
        """Return which exchange of gradients was chosen for the run, and why."""
        return self.path / "exchange.json"

    @property
    def lock(self) -> Path:
        """Return the file that the process which writes here holds locked."""
        return self.path / "lock"

    @property
    def checkpoints(self) -> Path:
        """Return the directory of checkpoints."""
        return self.path / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """Return the directory TensorBoard reads."""
        return self.path / "tensorboard"

    @property
    def samples(self) -> Path:
        """Return the directory of translations over time."""
        return self.path / "samples"

    @property
    def losses(self) -> Path:
        """Return the directory of what each validation sentence cost over time."""
        return self.path / "losses"

    @property
    def loss_tokens(self) -> Path:
        """Return the file of the tokens of each validation sentence."""
        return self.losses / "tokens.npy"

    @property
    def bundle(self) -> Path:
        """Return the directory to ship."""
        return self.path / "bundle"

    def events(self, rank: int) -> Path:
        """Return the file of events of process `rank`."""
        return self.path / "events" / f"rank-{rank:04d}.jsonl"

    def stacks(self, rank: int) -> Path:
        """Return where process `rank` stood when it had to end."""
        return self.path / "stacks" / f"rank-{rank:04d}.txt"

    def monitor(self, rank: int) -> Path:
        """Return the samples of the machine whose first process is `rank`."""
        return self.path / "monitor" / f"rank-{rank:04d}.jsonl"

    def sample(self, step: int) -> Path:
        """Return the file of sample translations at `step`."""
        return self.samples / f"step-{step:07d}.tsv"

    def sentence_losses(self, step: int) -> Path:
        """Return the file of what each validation sentence cost after `step`."""
        return self.losses / f"step-{step:07d}.npy"

    def report(self, suffix: str) -> Path:
        """Return the report with ending `suffix`: html, json or md."""
        return self.path / f"report.{suffix}"
