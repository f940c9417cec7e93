"""One text for everyone: what `unisono prepare` makes of Multi30k, and the same as pieces."""

import gzip
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import sentencepiece

from peers.task import LONGEST, SPECIAL, Texts
from unisono.corpus import open_corpus
from unisono.corpus.reader import Corpus

VOCABULARY = 8000
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}


def prepare_texts(work: Path, multi30k: Path) -> Texts:
    """Learn the pieces, encode, and write every split as pieces; or find that done."""
    directory = work / "text"
    found = directory / "texts.json"
    if found.is_file():
        table = json.loads(found.read_text())
        return Texts(directory, directory / "corpus", **table)
    directory.mkdir(parents=True, exist_ok=True)
    config = _write_raw(directory, multi30k)
    subprocess.run([sys.executable, "-m", "unisono", "prepare", config], check=True)
    corpus = open_corpus(directory / "corpus")
    processor = _processor(corpus)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    for piece in pieces[SPECIAL:]:
        if piece.split() != [piece]:
            raise SystemExit(
                f"the piece {piece!r} would be cut by a peer that splits at spaces"
            )
    texts = _write_pieces(directory, corpus, pieces)
    table = {key: value for key, value in asdict(texts).items() if not isinstance(value, Path)}
    found.write_text(json.dumps(table))
    return texts


def _write_raw(directory: Path, multi30k: Path) -> Path:
    lines = []
    for split, name in SPLITS.items():
        for language in ("en", "de"):
            packed = (multi30k / f"{name}.{language}.gz").read_bytes()
            (directory / f"raw-{split}.{language}").write_bytes(gzip.decompress(packed))
        stem = directory / f"raw-{split}"
        pair = f'{{source = "{stem}.en", target = "{stem}.de"}}'
        lines.append(f"{split} = {f'[{pair}]' if split == 'train' else pair}\n")
    # Nothing is dropped: every peer reads every pair.
    settings = directory / "corpus.toml"
    settings.write_text(
        f'[data]\n{"".join(lines)}[corpus]\ndirectory = "{directory / "corpus"}"\n'
        f"vocabulary = {VOCABULARY}\nmax_pieces = {LONGEST}\nmax_length_ratio = 100.0\n"
        "drop_identical = false\ndrop_duplicates = false\ndrop_overlap = false\n"
        "drop_wrong_script = false\n"
    )
    config = directory / "prepare.toml"
    config.write_text(f"{settings.read_text()}[train]\nmax_steps = 1\n")
    return config


def _processor(corpus: Corpus) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(corpus.path / "pieces.model"))


def _write_pieces(directory: Path, corpus: Corpus, pieces: list[str]) -> Texts:
    for split in SPLITS:
        part = corpus.split(split)
        for language, sentences in (("en", part.source), ("de", part.target)):
            with (directory / f"{split}.{language}").open("w", encoding="utf-8") as file:
                for i in range(len(part)):
                    file.write(" ".join(pieces[j] for j in sentences(i)) + "\n")
    train = corpus.split("train")
    texts = Texts(
        directory,
        corpus.path,
        vocabulary=len(pieces),
        pairs=len(train),
        mean_source=float(train.source_lengths.mean()) + 1,
        mean_target=float(train.target_lengths.mean()) + 1,
    )
    texts.pieces.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return texts
