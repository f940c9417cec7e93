"""Measure the sentence splitter: join lines of one sentence each, and find them again.

    python benchmarks/sentence_split.py --language de FILE

Only lines that end with a full stop, question or exclamation mark count. The file may be
compressed.
"""

import argparse
from pathlib import Path

from unisono.score.files import lines_of
from unisono.text.sentence_split import split_sentences

LINES, JOINED = 20_000, 5


def main() -> None:
    """Print precision and recall of the ends of sentences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", default="")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    lines = [line.strip() for line in lines_of(arguments.file)]
    lines = [line for line in lines if len(line) > 3 and line[-1] in ".?!"][:LINES]
    right = found = expected = 0
    for start in range(0, len(lines), JOINED):
        some = lines[start : start + JOINED]
        ends, place = set(), 0
        for line in some:
            ends.add(place + len(line))
            place += len(line) + 1
        split = {end for _, end in split_sentences(" ".join(some), arguments.language)}
        right, found = right + len(split & ends), found + len(split)
        expected += len(ends)
    print(f"{expected:,} ends: precision {right / found:.4f}, recall {right / expected:.4f}")


if __name__ == "__main__":
    main()
