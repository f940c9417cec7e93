"""A small parallel text on disk, for the tests of the preparation."""

import random
from pathlib import Path

from unisono.config.settings import CorpusSettings, Data, TextPair
from unisono.prepare import prepare_corpus

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sees",
    "house",
    "under",
    "tree",
    "red",
    "und",
    "Wörter",
    "größer",
]


def sentences(count, seed):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(6, 12))) for _ in range(count)]


def write(path, lines):
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def pair(directory, name, source, target, **settings):
    first = write(directory / f"{name}.en", source)
    second = write(directory / f"{name}.de", target)
    return TextPair(source=str(first), target=str(second), **settings)


def small_data(directory, count=400):
    directory.mkdir(exist_ok=True)
    return Data(
        train=[pair(directory, "train", sentences(count, 1), sentences(count, 2))],
        valid=pair(directory, "valid", sentences(10, 3), sentences(10, 4)),
        test=pair(directory, "test", sentences(10, 5), sentences(10, 6)),
    )


def corpus_settings(path, **changes):
    return CorpusSettings(
        directory=str(path), vocabulary=changes.pop("vocabulary", 100), **changes
    )


def prepare(data, path, *, workers=1, **changes):
    return list(prepare_corpus(data, corpus_settings(path, **changes), workers=workers))


def names(directory):
    return sorted(entry.name for entry in Path(directory).iterdir())


def content(directory):
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}
