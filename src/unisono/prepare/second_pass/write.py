"""Write the encoded splits of a corpus: blocks of ids, and the original held-out text."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from unisono.corpus.manifest import Block
from unisono.corpus.writer import BlockWriter, write_texts
from unisono.prepare.first_pass.clean_text import CleanChunk, CleanText, Hashes, HeldOutSet
from unisono.prepare.first_pass.filters import Drops
from unisono.prepare.job import PrepareJob, PrepareProgress
from unisono.prepare.second_pass import encode
from unisono.process_pool import worker_pool
from unisono.text.normalise import encode_source
from unisono.text.tokenizer import Tokenizers


class SplitWriter:
    """Encode splits and write them into `directory`."""

    def __init__(self, tokenizers: Tokenizers, directory: Path, drops: Drops) -> None:
        self.blocks: dict[str, list[Block]] = {}
        self.first_pairs: list[tuple[str, str]] = []
        self.unknown: tuple[dict[str, None], dict[str, None]] = {}, {}
        self._tokenizers = tokenizers
        self._directory = directory
        self._drops = drops

    def write_held_out(self, held_out: HeldOutSet) -> None:
        """Write a held-out set, whatever the lengths of its pairs, and its original text."""
        source, target = map(list, zip(*held_out.pairs, strict=True))
        with self._new_block(held_out.raw.block) as block:
            block.append(
                encode_source(self._tokenizers.source, source, held_out.raw.tag),
                self._tokenizers.target.encode(target),
                text_bytes=encode.text_bytes(chain(source, target)),
            )
        split, read = held_out.raw.split, held_out.record.source.lines
        self.blocks[split] = [block.record(read_pairs=read, tag=held_out.raw.tag)]
        write_texts(self._directory, split, *map(list, zip(*held_out.original, strict=True)))

    def write_train(
        self, texts: list[CleanText], job: PrepareJob, files: encode.TokenizerFiles
    ) -> Iterator[PrepareProgress]:
        """Encode the training text in parallel; write one block for each source."""
        total, done = sum(text.pairs for text in texts), 0
        blocks = self.blocks.setdefault("train", [])
        with worker_pool(encode.ChunkEncoder(job.settings, files), job.workers) as workers:
            for text in texts:
                yield PrepareProgress("encoding", done, total)
                with self._new_block(text.raw.block, hashed=True) as block:
                    encoded = workers.results(text.chunks)
                    parts = zip(encoded, text.chunks, text.hashes, strict=True)
                    for pairs, chunk, hashes in parts:
                        self._append(block, pairs, chunk, hashes)
                        done += len(pairs.kept)
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
        self, block: BlockWriter, pairs: encode.EncodedPairs, chunk: CleanChunk, hashes: Hashes
    ) -> None:
        kept = hashes[chunk.keep][pairs.kept]
        block.append_packed(pairs.source, pairs.target, kept, text_bytes=pairs.text_bytes)
        chunk.path.unlink()  # to free disk space
        self._drops.add_all(pairs.dropped)
        self.first_pairs = [*self.first_pairs, *pairs.first_pairs][: encode.FIRST_PAIRS]
        for side, characters in zip(self.unknown, pairs.unknown, strict=True):
            side.update(dict.fromkeys(characters))

    def _new_block(self, name: str, *, hashed: bool = False) -> BlockWriter:
        both = self._tokenizers
        return BlockWriter(
            self._directory,
            name,
            both.target.size,
            both.source_vocabulary,
            hashed=hashed,
        )
