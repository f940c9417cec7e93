"""Write the built-in corpus as the six text files every other corpus has."""

from pathlib import Path

from unisono.atomic import new_directory
from unisono.corpora.builtin.generate import generate
from unisono.corpora.builtin.pairs import Pair
from unisono.errors import DataError


def write_builtin(
    directory: Path,
    *,
    seed: int = 1,
    train: int = 200_000,
    valid: int = 1_000,
    test: int = 1_000,
) -> None:
    """Write train, valid and test, each as .en and .de, one sentence a line.

    The directory appears when all six files are complete, and not before. It must be new or
    empty: nothing is overwritten.
    """
    if directory.exists() and any(directory.iterdir()):
        raise DataError(
            "the built-in corpus is not written over other files",
            where=str(directory),
            fix="name a new directory, or delete this one first",
        )
    splits = generate(seed=seed, train=train, valid=valid, test=test)
    with new_directory(directory) as unfinished:
        _write_lines(unfinished / "train", splits.train)
        _write_lines(unfinished / "valid", splits.valid)
        _write_lines(unfinished / "test", splits.test)


def _write_lines(stem: Path, pairs: tuple[Pair, ...]) -> None:
    sources = "".join(f"{pair.source}\n" for pair in pairs)
    targets = "".join(f"{pair.target}\n" for pair in pairs)
    stem.with_suffix(".en").write_text(sources, encoding="utf-8", newline="\n")
    stem.with_suffix(".de").write_text(targets, encoding="utf-8", newline="\n")
