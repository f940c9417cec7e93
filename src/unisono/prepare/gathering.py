"""The first pass: read every file once, normalise, filter, and keep what is worth it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, compress
from pathlib import Path

from unisono.config.settings import CorpusSettings
from unisono.corpus.manifest import Input
from unisono.errors import DataError
from unisono.prepare.cleaning import EMPTY, Drops, HeldOut, TextFilter
from unisono.prepare.inputs import RawPair
from unisono.prepare.progress import Progress
from unisono.prepare.reading import PairReader
from unisono.prepare.spool import Spool
from unisono.text.normalise import normalise_lines


@dataclass(frozen=True)
class HeldOutSet:
    """A validation or test set: pairs as they were written, and the same normalised."""

    raw: RawPair
    original: list[tuple[str, str]] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)


class Gathering:
    """Collect the text of all inputs, the held-out sets in memory, the rest in `spool_path`."""

    def __init__(self, settings: CorpusSettings, spool_path: Path, drops: Drops) -> None:
        self.records: list[Input] = []
        self.held_out: list[HeldOutSet] = []
        self.spools: list[Spool] = []
        self._settings = settings
        self._spool_path = spool_path
        self._drops = drops

    def read(self, inputs: list[RawPair]) -> Iterator[Progress]:
        """Read all inputs. The held-out sets come first: training text must not repeat them."""
        total, done = sum(raw.bytes for raw in inputs), 0
        text_filter: TextFilter | None = None
        for raw in inputs:
            reader = PairReader(raw)
            if raw.split != "train":
                self._read_held_out(raw, reader)
            else:
                text_filter = text_filter or self._text_filter()
                for _ in self._read_train(raw, reader, text_filter):
                    yield Progress("reading", done + reader.bytes_read, total, "bytes")
            self.records.append(reader.record())
            done += reader.bytes_read
            yield Progress("reading", done, total, "bytes")

    def _text_filter(self) -> TextFilter:
        pairs = chain.from_iterable(held_out.pairs for held_out in self.held_out)
        return TextFilter(self._settings, HeldOut(pairs))

    def _read_held_out(self, raw: RawPair, reader: PairReader) -> None:
        held_out = HeldOutSet(raw)
        for source, target in reader.batches():
            clean = zip(normalise_lines(source), normalise_lines(target), strict=True)
            for pair, original in zip(clean, zip(source, target, strict=True), strict=True):
                if all(pair):
                    held_out.pairs.append(pair)
                    held_out.original.append(original)
                else:
                    self._drops.add(f"{EMPTY} in {raw.split}", *pair)
        if not held_out.pairs:
            raise DataError(
                f"every pair of the {raw.split} set has an empty side",
                where=raw.where,
                fix="name files with text on the same lines",
            )
        self.held_out.append(held_out)

    def _read_train(
        self, raw: RawPair, reader: PairReader, text_filter: TextFilter
    ) -> Iterator[None]:
        with Spool(self._spool_path, raw.block) as spool:
            for lines in reader.batches():
                source, target = (normalise_lines(side) for side in lines)
                reasons = list(map(text_filter.reason, source, target))
                judged = zip(reasons, source, target, strict=True)
                for reason, *pair in compress(judged, reasons):
                    self._drops.add(reason, *pair)
                kept = [not reason for reason in reasons]
                spool.append(list(compress(source, kept)), list(compress(target, kept)))
                yield
        self.spools.append(spool)
