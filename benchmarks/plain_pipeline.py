"""What a user writes without a tool: clean, train and encode line by line with sentencepiece.

python benchmarks/plain_pipeline.py SOURCE TARGET DIRECTORY PIECES SAMPLE_LINES
"""

import array
import sys
import unicodedata
from pathlib import Path

import sentencepiece


def main(source: Path, target: Path, directory: Path, pieces: int, sample: int) -> None:
    """Write clean text, a model and the ids of both sides."""
    directory.mkdir(parents=True)
    seen: set[tuple[str, str]] = set()
    clean = directory / "clean.en", directory / "clean.de"
    with (
        source.open(encoding="utf-8") as sources,
        target.open(encoding="utf-8") as targets,
        clean[0].open("w", encoding="utf-8") as out_source,
        clean[1].open("w", encoding="utf-8") as out_target,
    ):
        for pair in zip(sources, targets, strict=True):
            one, other = (" ".join(unicodedata.normalize("NFC", s).split()) for s in pair)
            if one and other and one != other and (one, other) not in seen:
                seen.add((one, other))
                out_source.write(f"{one}\n")
                out_target.write(f"{other}\n")
    seen.clear()
    sentencepiece.SentencePieceTrainer.train(
        input=[str(path) for path in clean],
        model_prefix=str(directory / "pieces"),
        model_type="bpe",
        vocab_size=pieces,
        character_coverage=1.0,
        input_sentence_size=sample,
        shuffle_input_sentence=True,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(directory / "pieces.model"))
    for path in clean:
        with path.open(encoding="utf-8") as lines, path.with_suffix(".ids").open("wb") as out:
            for line in lines:
                array.array("H", processor.encode(line)).tofile(out)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), *map(int, sys.argv[4:6]))
