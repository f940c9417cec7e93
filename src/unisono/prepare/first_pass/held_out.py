"""The validation and the test set, and training pairs that give them away."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from unisono.corpus.manifest import Input
from unisono.errors import DataError
from unisono.prepare.first_pass.chunks import PairReader, lines_of
from unisono.prepare.first_pass.drops import EMPTY, Drops
from unisono.prepare.inputs import RawPair
from unisono.text.normalise import Normalisation, cut_tags

# Shorter sentences ("Thank you very much.") recur by themselves, so that for them only the
# same translation is a sign of overlap.
_TELLING_CHARACTERS = 30


class HeldOut:
    """The sentences of the validation and the test set, which training must not see.

    With or without tags before it, a sentence is the same.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], tags: Iterable[str] = ()) -> None:
        self._tags = dict.fromkeys(tags, 0)
        self._pairs = {(self._text(source), target) for source, target in pairs}
        self._sources = {s for s, _ in self._pairs if len(s) >= _TELLING_CHARACTERS}
        self._targets = {t for _, t in self._pairs if len(t) >= _TELLING_CHARACTERS}

    def overlaps(self, source: str, target: str) -> bool:
        """Say whether a training pair gives a held-out pair away."""
        source = self._text(source)
        if source in self._sources or target in self._targets:
            return True
        return (source, target) in self._pairs

    def _text(self, source: str) -> str:
        return cut_tags(source, self._tags)[1] if self._tags else source


@dataclass(frozen=True)
class HeldOutSet:
    """A validation or test set: pairs as they were written, and the same normalised."""

    raw: RawPair
    record: Input
    original: list[tuple[str, str]]
    pairs: list[tuple[str, str]]
    dropped: Drops = field(default_factory=Drops)


def read_held_out(raw: RawPair, normalise: Normalisation) -> HeldOutSet:
    """Read a held-out set as it is; only pairs with an empty side go."""
    reader, drops = PairReader(raw), Drops()
    pairs, original = [], []
    for pair, written in _normalised(reader, normalise):
        if all(pair):
            pairs.append(pair)
            original.append(written)
        else:
            drops.add(f"{EMPTY} in {raw.split}", *pair)
    if not pairs:
        raise DataError(
            f"every pair of the {raw.split} set has an empty side",
            where=raw.where,
            fix="name files with text on the same lines",
        )
    return HeldOutSet(raw, reader.record(), original, pairs, drops)


def _normalised(
    reader: PairReader, normalise: Normalisation
) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    for chunk in reader.chunks():
        lines = lines_of(chunk, drop_invalid=False)
        clean = zip(normalise(lines.source), normalise(lines.target), strict=True)
        yield from zip(clean, zip(lines.source, lines.target, strict=True), strict=True)
