"""Writing blocks of ids into the directory of a corpus."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unisono.corpus.manifest import Block
from unisono.corpus.writer import BlockWriter, write_texts
from unisono.prepare.first_pass.clean_text import CleanText
from unisono.prepare.first_pass.drops import Drops
from unisono.prepare.first_pass.held_out import HeldOutSet
from unisono.prepare.job import PrepareJob, PrepareProgress
from unisono.prepare.second_pass.encode_chunk import (
    FIRST_PAIRS,
    ChunkEncoder,
    EncodedPairs,
    Pieces,
    Portion,
    text_bytes,
)
from unisono.process_pool import working
from unisono.text.normalise import encode_source
from unisono.text.tokenizer import Tokenizers


class Encoding:
    """Write blocks of ids into `directory`."""

    def __init__(self, tokenizers: Tokenizers, directory: Path, drops: Drops) -> None:
        self.blocks: dict[str, list[Block]] = {}
        self.first_pairs: list[tuple[str, str]] = []
        self.unknown: tuple[dict[str, None], dict[str, None]] = {}, {}
        self._tokenizers = tokenizers
        self._directory = directory
        self._drops = drops

    def write_held_out(self, held_out: HeldOutSet) -> None:
        """Encode a held-out set as it is, whatever its lengths, and keep its original text."""
        source, target = map(list, zip(*held_out.pairs, strict=True))
        with self._new_block(held_out.raw.block) as block:
            block.append(
                encode_source(self._tokenizers.source, source, held_out.raw.tag),
                self._tokenizers.target.encode(target),
                text_bytes=text_bytes(chain(source, target)),
            )
        split, read = held_out.raw.split, held_out.record.source.lines
        self.blocks[split] = [block.record(read_pairs=read, tag=held_out.raw.tag)]
        write_texts(self._directory, split, *map(list, zip(*held_out.original, strict=True)))

    def write_train(
        self, texts: list[CleanText], assignment: PrepareJob, pieces: Pieces
    ) -> Iterator[PrepareProgress]:
        """Encode the training text, one block for each source."""
        total, done = sum(text.pairs for text in texts), 0
        blocks = self.blocks.setdefault("train", [])
        with working(
            ChunkEncoder(assignment.settings, pieces), assignment.workers
        ) as workforce:
            for text in texts:
                yield PrepareProgress("encoding", done, total)
                with self._new_block(text.raw.block, hashed=True) as block:
                    parts = zip(text.portions, text.hashes, strict=True)
                    for packed, part in zip(
                        workforce.results(text.portions), parts, strict=True
                    ):
                        self._append(block, packed, *part)
                        done += len(packed.kept)
                        yield PrepareProgress("encoding", done, total)
                blocks.append(
                    block.record(
                        read_pairs=text.record.source.lines,
                        weight=text.raw.weight,
                        tag=text.raw.tag,
                    )
                )
        yield PrepareProgress("encoding", total, total)

    def _append(
        self,
        block: BlockWriter,
        packed: EncodedPairs,
        portion: Portion,
        hashes: NDArray[np.uint64],
    ) -> None:
        kept = hashes[portion.wanted][packed.kept]
        block.append_packed(packed.source, packed.target, kept, text_bytes=packed.text_bytes)
        portion.text.path.unlink()  # to make room
        self._drops.add_all(packed.dropped)
        self.first_pairs = [*self.first_pairs, *packed.first_pairs][:FIRST_PAIRS]
        for side, characters in zip(self.unknown, packed.unknown, strict=True):
            side.update(dict.fromkeys(characters))

    def _new_block(self, name: str, *, hashed: bool = False) -> BlockWriter:
        both = self._tokenizers
        return BlockWriter(
            self._directory,
            name,
            both.target.size,
            0 if both.joint else both.source.size,
            hashed=hashed,
        )
