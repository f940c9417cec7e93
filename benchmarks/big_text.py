"""Text of WMT's size for benchmarks: the built-in grammar and Multi30k, mixed.

Sentences are put together until a line has as many words as a log-normal draw asks for, so
that lengths vary like those of real text, around 25 words a side. A grammar soon runs out of
new words and real text never does: therefore every tenth line also has a made-up name, and
every seventh a made-up German compound with the same two words in English.
"""

import gzip
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from unisono.datasets.builtin.generate import stream

Pair = tuple[str, str]

SENTENCES = 300_000
SYLLABLES = [a + b for a in "bdfghklmnprstvwz" for b in ("a", "e", "i", "o", "u", "ei", "au")]


def write_text(directory: Path, pairs: int, multi30k: Path) -> tuple[Path, Path]:
    """Write `pairs` lines in English and in German, the same for the same number."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = directory / f"train-{pairs}.en", directory / f"train-{pairs}.de"
    if not all(path.is_file() for path in paths):
        rng = random.Random(1)
        pool = [*_grammar(), *3 * read_multi30k(multi30k, "train")]
        unfinished = [path.with_suffix(path.suffix + ".part") for path in paths]
        with unfinished[0].open("w") as source, unfinished[1].open("w") as target:
            for one, other in islice(_lines(pool, rng), pairs):
                source.write(f"{one}\n")
                target.write(f"{other}\n")
        for part, path in zip(unfinished, paths, strict=True):
            part.rename(path)
    return paths


def read_multi30k(folder: Path, name: str) -> list[Pair]:
    """Read one set of Multi30k."""
    sides = [
        gzip.decompress((folder / f"{name}.{language}.gz").read_bytes()).decode().split("\n")
        for language in ("en", "de")
    ]
    return list(zip(sides[0][:-1], sides[1][:-1], strict=True))


def _grammar() -> list[Pair]:
    return [(pair.source, pair.target) for pair in islice(stream(1), SENTENCES)]


def _lines(pool: list[Pair], rng: random.Random) -> Iterator[Pair]:
    while True:
        wanted = rng.lognormvariate(2.73, 0.65)
        source: list[str] = []
        target: list[str] = []
        words = 0
        while words < wanted:
            one, other = pool[int(rng.random() * len(pool))]
            source.append(one)
            target.append(other)
            words += one.count(" ") + 1
        for extra in _made_up(rng):
            source.append(extra[0])
            target.append(extra[1])
        yield " ".join(source), " ".join(target)


def _made_up(rng: random.Random) -> Iterator[Pair]:
    if rng.random() < 1 / 10:
        name = _word(rng.randrange(1_000_000)).capitalize()
        yield f"({name})", f"({name})"
    if rng.random() < 1 / 7:
        first, second = _word(rng.randrange(3_000)), _word(rng.randrange(3_000))
        yield f"{first} {second}", f"{first}{second}".capitalize()


def _word(number: int) -> str:
    word = ""
    while True:
        number, rest = divmod(number, len(SYLLABLES))
        word += SYLLABLES[rest]
        if not number:
            return word
