"""A corpus and settings small enough to train in a test, prepared by the real thing."""

import random

from unisono.config.load import resolve
from unisono.prepare.build import prepare_corpus

ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]


def write_text(directory, name, pairs, seed):
    """Write counting rhymes, and in German the same backwards."""
    rng = random.Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    with (
        (directory / f"{name}.en").open("w", encoding="utf-8") as source,
        (directory / f"{name}.de").open("w", encoding="utf-8") as target,
    ):
        for _ in range(pairs):
            digits = [rng.randrange(10) for _ in range(rng.randint(1, 8))]
            source.write(" ".join(ENGLISH[d] for d in digits) + "\n")
            target.write(" ".join(GERMAN[d] for d in reversed(digits)) + "\n")


def tiny_settings(directory, run="run", **tables):
    """Return settings for a tiny run whose files are below `directory`."""
    text = directory / "text"
    table = {
        "seed": 3,
        "run": str(directory / run),
        "device": "cpu",
        "data": {
            "train": [{"source": str(text / "train.en"), "target": str(text / "train.de")}],
            "valid": {"source": str(text / "valid.en"), "target": str(text / "valid.de")},
            "test": {"source": str(text / "test.en"), "target": str(text / "test.de")},
        },
        "corpus": {
            "directory": str(directory / "corpus"),
            "vocabulary": 64,
            "max_pieces": 40,
            "drop_overlap": False,
        },
        "model": {
            "width": 16,
            "heads": 2,
            "inner": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "dropout": 0.1,
            "attention_dropout": 0.1,
            "activation_dropout": 0.1,
        },
        "batching": {"tokens_per_update": 400, "tokens_per_micro_batch": 100},
        "optimizer": {"name": "adam", "beta2": 0.98},
        "schedule": {"name": "inverse_sqrt", "peak": 0.01, "warmup_steps": 4},
        "train": {"max_steps": 12, "label_smoothing": 0.1},
        "validation": {"every_steps": 5, "tokens_per_batch": 300, "best": "loss"},
        "checkpoint": {"every_steps": 4},
        "decoding": {"beam": 2},
        "monitor": {"on": False},  # a process more: only where it is looked at
    }
    for name, changes in tables.items():
        merged = isinstance(changes, dict) and "name" not in changes
        table[name] = {**table.get(name, {}), **changes} if merged else changes
    return resolve(table, where="test")


def tiny_corpus(directory):
    """Write the text and prepare the corpus that `tiny_settings(directory)` names."""
    write_text(directory / "text", "train", 300, seed=1)
    write_text(directory / "text", "valid", 20, seed=2)
    write_text(directory / "text", "test", 20, seed=3)
    settings = tiny_settings(directory)
    for _ in prepare_corpus(settings.data, settings.corpus):
        pass
    return directory
