"""How far the preparation is.

What is to be prepared, and by how many.
"""

from dataclasses import dataclass
from pathlib import Path

from unisono.config.settings import CorpusSettings, Data
from unisono.prepare.inputs import RawPair
from unisono.text.normalise import Normalisation


@dataclass(frozen=True)
class PrepareProgress:
    """`done` of `total` units of a stage, from 0 to all of them; a `total` of 0 is not known.

    Stages in order: "reading" (bytes of the input files), "reading a sample" (pairs),
    "learning pieces", "encoding" (pairs). If a corpus is there already, "comparing" and
    "verifying" (bytes) come first; then either "up to date" or "weights changed" is all, or
    only what is new is read and encoded, and "added" (sources) comes last.
    """

    stage: str
    done: int
    total: int
    unit: str = "pairs"


@dataclass(frozen=True)
class PrepareJob:
    """The text of `inputs` is to become the corpus of `settings`, with the help of `workers`
    other processes.
    """

    data: Data
    settings: CorpusSettings
    inputs: list[RawPair]
    workers: int

    @property
    def path(self) -> Path:
        """Return where the corpus is to lie."""
        return Path(self.settings.directory)

    @property
    def languages(self) -> tuple[str, str]:
        """Return the codes of both languages."""
        return self.data.source_language, self.data.target_language

    @property
    def normalise(self) -> Normalisation:
        """Return how lines are to be written."""
        return Normalisation(self.settings.plain_quotes, self.settings.lowercase)

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags that source lines may begin with."""
        used = (raw.tag for raw in self.inputs if raw.tag)
        return tuple(dict.fromkeys([*self.settings.tags, *used]))

    @property
    def train(self) -> list[RawPair]:
        """Return the inputs to train on."""
        return [raw for raw in self.inputs if raw.split == "train"]

    @property
    def held_out(self) -> list[RawPair]:
        """Return the inputs to keep out of training."""
        return [raw for raw in self.inputs if raw.split != "train"]
