"""The second pass: clean text → ids, without what is too long or too lopsided in pieces."""

from collections.abc import Iterable, Iterator
from itertools import chain, compress
from pathlib import Path

from unisono.config.settings import CorpusSettings
from unisono.corpus.manifest import Block
from unisono.corpus.writer import BlockWriter, write_texts
from unisono.prepare.cleaning import Drops, LengthFilter
from unisono.prepare.gathering import HeldOutSet
from unisono.prepare.progress import Progress
from unisono.prepare.reading import LINES_PER_BATCH
from unisono.prepare.spool import Spool
from unisono.text.tokenizer import Tokenizer


class Encoding:
    """Write blocks of ids into `directory`."""

    def __init__(
        self, settings: CorpusSettings, tokenizer: Tokenizer, directory: Path, drops: Drops
    ) -> None:
        self.blocks: dict[str, list[Block]] = {"train": []}
        self._limits = LengthFilter(settings)
        self._tokenizer = tokenizer
        self._directory = directory
        self._drops = drops

    def write_held_out(self, held_out: HeldOutSet) -> None:
        """Encode a held-out set as it is, whatever its lengths, and keep its original text."""
        source, target = map(list, zip(*held_out.pairs, strict=True))
        with self._new_block(held_out.raw.block) as block:
            block.append(
                self._tokenizer.encode(source),
                self._tokenizer.encode(target),
                text_bytes=_text_bytes(source, target),
            )
        split = held_out.raw.split
        self.blocks[split] = [block.record()]
        write_texts(self._directory, split, *map(list, zip(*held_out.original, strict=True)))

    def write_train(self, spools: list[Spool]) -> Iterator[Progress]:
        """Encode the training text, one block per spool."""
        total, done = sum(spool.pairs for spool in spools), 0
        for spool in spools:
            with self._new_block(spool.block) as block:
                for source, target in spool.batches(LINES_PER_BATCH):
                    yield Progress("encoding", done, total)
                    self._write_batch(block, source, target)
                    done += len(source)
            self.blocks["train"].append(block.record())
        yield Progress("encoding", total, total)

    def _new_block(self, name: str) -> BlockWriter:
        return BlockWriter(self._directory, name, self._tokenizer.size)

    def _write_batch(self, block: BlockWriter, source: list[str], target: list[str]) -> None:
        source_ids, target_ids = self._tokenizer.encode(source), self._tokenizer.encode(target)
        kept = self._limits.kept(source_ids, target_ids)
        for index in (~kept).nonzero()[0]:
            reason = self._limits.reason(len(source_ids[index]), len(target_ids[index]))
            self._drops.add(reason, source[index], target[index])
        block.append(
            list(compress(source_ids, kept)),
            list(compress(target_ids, kept)),
            text_bytes=_text_bytes(compress(source, kept), compress(target, kept)),
        )


def _text_bytes(source: Iterable[str], target: Iterable[str]) -> int:
    """Count the bytes of all lines with their line feeds."""
    return len("".join(f"{line}\n" for line in chain(source, target)).encode("utf-8"))
