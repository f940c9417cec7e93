"""The manifest of the corpus as the diagnosis reads it: what is missing in it is 0."""

from typing import Any

import msgspec


class TextFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A file of text. `bytes` is the file as it lies there, `text_bytes` the text in it."""

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
    """What went for one reason."""

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
