"""Write the built-in corpus as six text files, or verify them."""

from collections.abc import Iterator
from pathlib import Path

from unisono.atomic import Written, difference, new_directory, sha256_of, write_text, written
from unisono.datasets.builtin.clauses import SentencePair
from unisono.datasets.builtin.generate import generate
from unisono.datasets.corpus_directory import (
    DATA_TOML,
    LOCK,
    Lock,
    Text,
    data_section,
    read_lock,
    refuse_strangers,
    write_lock,
)
from unisono.datasets.entry import Entry, Set, Side
from unisono.errors import DataError

LANGUAGES = ("en", "de")
ENTRY = Entry(
    name="builtin",
    description="generated from a small grammar",
    languages=LANGUAGES,
    file=(),
    set=(
        Set("train", "train", dict.fromkeys(LANGUAGES, Side("")), pairs=200_000),
        Set("valid", "valid", dict.fromkeys(LANGUAGES, Side("")), pairs=1_000),
        Set("test", "test", dict.fromkeys(LANGUAGES, Side("")), pairs=1_000),
    ),
)


def write_builtin(
    directory: Path,
    *,
    seed: int = 1,
    train: int = 200_000,
    valid: int = 1_000,
    test: int = 1_000,
) -> bool:
    """Write train, valid and test, each as .en and .de, one sentence a line.

    The directory appears when everything in it is complete, and not before. If the same
    corpus is there it is verified; nothing is overwritten. Return whether it was written.
    """
    sizes = {"train": train, "valid": valid, "test": test}
    if (directory / LOCK).exists():
        _verify(directory, seed, sizes)
        if not (directory / DATA_TOML).exists():
            write_text(directory / DATA_TOML, data_section(ENTRY, ENTRY.set, directory))
        return False
    _refuse_others(directory, [f"{name}.{lang}" for name in sizes for lang in LANGUAGES])
    splits = generate(seed=seed, **sizes)
    with new_directory(directory) as unfinished:
        texts = {}
        for item in ENTRY.set:
            pairs: tuple[SentencePair, ...] = getattr(splits, item.name)
            _write_lines(unfinished / item.name, pairs)
            for language in LANGUAGES:
                text = _described(unfinished, item, language, seed, len(pairs))
                texts[text.name] = text
        write_text(unfinished / DATA_TOML, data_section(ENTRY, ENTRY.set, directory))
        digest = sha256_of(unfinished / DATA_TOML)
        lock = Lock(corpus=ENTRY.name, texts=texts, data_toml=digest)
        write_lock(unfinished, lock, finished=True)
    return True


def _refuse_others(directory: Path, names: list[str]) -> None:
    if directory.is_dir():
        refuse_strangers(directory, names)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DataError(
            "the directory holds other files, which are not overwritten",
            where=str(directory),
            fix="name a new directory with --to, or delete this one first",
        )


def _verify(directory: Path, seed: int, sizes: dict[str, int]) -> None:
    """Refuse files that are not the corpus of this seed and these sizes."""
    lock = read_lock(directory)
    if lock.corpus != ENTRY.name:
        what, found = f"{directory} holds the corpus {lock.corpus}, not {ENTRY.name}", []
    elif found := list(_others(lock, seed, sizes)):
        what = f"this is not the built-in corpus of {sizes['train']:,} pairs and seed {seed}:"
    elif found := list(_damages(lock, directory)):
        what = "files have changed since they were written:"
    else:
        return
    raise DataError(
        "\n".join([what, *found]),
        where=str(directory),
        fix="name a new directory with --to, or delete this one first",
    )


def _others(lock: Lock, seed: int, sizes: dict[str, int]) -> Iterator[str]:
    for text in lock.texts.values():
        if (text.lines, text.recipe) != (sizes.get(text.set), f"seed {seed}"):
            yield f"{text.name}: {text.lines:,} pairs, {text.recipe}"


def _damages(lock: Lock, directory: Path) -> Iterator[str]:
    for name, text in lock.texts.items():
        if wrong := difference(directory / name, Written(text.bytes, text.sha256)):
            yield f"{name}: {wrong}"


def _described(directory: Path, item: Set, language: str, seed: int, lines: int) -> Text:
    name = f"{item.name}.{language}"
    file = written(directory / name)
    return Text(
        name=name,
        set=item.name,
        role=item.role,
        language=language,
        bytes=file.bytes,
        lines=lines,
        sha256=file.sha256,
        download="",
        members=(),
        recipe=f"seed {seed}",
    )


def _write_lines(stem: Path, pairs: tuple[SentencePair, ...]) -> None:
    sources = "".join(f"{pair.source}\n" for pair in pairs)
    targets = "".join(f"{pair.target}\n" for pair in pairs)
    stem.with_suffix(".en").write_text(sources, encoding="utf-8", newline="\n")
    stem.with_suffix(".de").write_text(targets, encoding="utf-8", newline="\n")
