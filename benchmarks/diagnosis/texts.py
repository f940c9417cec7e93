"""Two made-up corpora: one to compute on, and one that is learnt in seconds.

A word of the source has two translations, and a coin decides which one stands there. So a model
cannot get below a known loss, which is where it levels off; and whoever gets below it on the
training set has learnt the coins by heart.
"""

import random
from pathlib import Path
from typing import Any

from unisono.config.load import resolve
from unisono.prepare.build import prepare_corpus

SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te")


def word(number: int, end: str) -> str:
    """Return the word with a number; each has another."""
    first, second = divmod(number, len(SYLLABLES))
    return SYLLABLES[first % len(SYLLABLES)] + SYLLABLES[second] + end


def write_text(
    directory: Path, name: str, pairs: int, seed: int, *, words: int, longest: int
) -> None:
    """Write so many sentences and their translations, most of them shorter than the longest."""
    rng = random.Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    with (
        (directory / f"{name}.en").open("w", encoding="utf-8") as source,
        (directory / f"{name}.de").open("w", encoding="utf-8") as target,
    ):
        for _ in range(pairs):
            length = round(longest ** rng.uniform(0.3, 1.0))
            numbers = [rng.randrange(words) for _ in range(length)]
            source.write(" ".join(word(n, "") for n in numbers) + "\n")
            target.write(" ".join(word(n, rng.choice("nt")) for n in numbers) + "\n")


CORPORA: dict[str, dict[str, int]] = {
    "work": {"pairs": 12_000, "words": 100, "longest": 40},
    "lesson": {"pairs": 20_000, "words": 30, "longest": 6},
    "primer": {"pairs": 250, "words": 30, "longest": 6},
}
VALID_PAIRS = 200


def data_tables(home: Path, corpus: str) -> dict[str, Any]:
    """Return the settings of a corpus below `home`."""
    text = home / "text" / corpus
    return {
        "data": {
            "train": [{"source": str(text / "train.en"), "target": str(text / "train.de")}],
            "valid": {"source": str(text / "valid.en"), "target": str(text / "valid.de")},
        },
        "corpus": {
            "directory": str(home / "corpora" / corpus),
            "vocabulary": 256 if corpus == "work" else 90,
            "max_pieces": 120,
            "drop_duplicates": False,
            "drop_identical": False,
        },
    }


def prepare(home: Path, corpus: str) -> None:
    """Write the text of a corpus and prepare it, unless that was done before."""
    if (home / "corpora" / corpus / "manifest.json").is_file():
        return
    sizes = dict(CORPORA[corpus])
    text, pairs = home / "text" / corpus, sizes.pop("pairs")
    write_text(text, "train", pairs, seed=1, **sizes)
    write_text(text, "valid", VALID_PAIRS, seed=2, **sizes)
    settings = resolve(data_tables(home, corpus), where="the benchmark", training=False)
    for _ in prepare_corpus(settings.data, settings.corpus):
        pass
