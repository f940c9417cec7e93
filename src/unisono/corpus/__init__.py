"""Read and write the prepared corpus (`docs/reference/corpus.md`), without torch."""

from unisono.corpus.manifest import CorpusManifest
from unisono.corpus.reader import Corpus, Split, open_corpus
from unisono.corpus.writer import BlockWriter, seal, write_corpus, write_texts

__all__ = [
    "BlockWriter",
    "Corpus",
    "CorpusManifest",
    "Split",
    "open_corpus",
    "seal",
    "write_corpus",
    "write_texts",
]
