"""Which text files become which block of the corpus."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from unisono.config.settings import Data, TextPair
from unisono.errors import ConfigError, DataError

_ALIKE = 0.8  # or a name is not taken for a slip of the pen


@dataclass(frozen=True)
class RawPair:
    """Two text files, or two columns of one, the block they become and their table.

    Of a file of columns both names are the same, and `columns` counts from 1.
    """

    split: str
    block: str
    where: str
    source: Path
    target: Path
    columns: tuple[int, int] | None = None
    weight: float = 1.0
    tag: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """Return both files, or the one that holds both languages."""
        return (self.source,) if self.columns else (self.source, self.target)

    @property
    def bytes(self) -> int:
        """Return the size of the files as they lie there."""
        return sum(path.stat().st_size for path in self.files)


def list_inputs(data: Data) -> list[RawPair]:
    """Return all inputs, the held-out sets first, once it is sure that every file is there."""
    if not data.train:
        raise ConfigError(
            "no training text is named",
            where="[[data.train]]",
            fix='add [[data.train]] with source = "train.en" and target = "train.de"',
        )
    if data.valid is None:
        raise ConfigError(
            "no validation text is named",
            where="[data.valid]",
            fix='add [data.valid] with source = "valid.en" and target = "valid.de"',
        )
    inputs = list(_raw_pairs(data, data.valid))
    named = {path for raw in inputs for path in raw.files}
    for raw in inputs:
        for path in raw.files:
            _check_is_there(path, raw.where, named)
    return inputs


def _raw_pairs(data: Data, valid: TextPair) -> Iterator[RawPair]:
    yield _raw_pair("valid", 0, "[data.valid]", valid)
    if data.test is not None:
        yield _raw_pair("test", 0, "[data.test]", data.test)
    for number, pair in enumerate(data.train):
        yield _raw_pair("train", number, f"[[data.train]] number {number + 1}", pair)


def _raw_pair(split: str, number: int, where: str, pair: TextPair) -> RawPair:
    return RawPair(
        split,
        f"{split}.{number}",
        where,
        Path(pair.tsv or pair.source),
        Path(pair.tsv or pair.target),
        pair.columns if pair.tsv else None,
        pair.weight,
        pair.tag,
    )


def _check_is_there(path: Path, where: str, named: set[Path]) -> None:
    if path.is_file():
        return
    if path.is_dir():
        raise DataError(f"{path} is a directory", where=where, fix="name a text file")
    likely = _likely(path, named)
    hint = f"did you mean `{path.with_name(likely)}`? " if likely else ""
    if path.parts[0] == "data" and len(path.parts) > 2 and not likely:
        hint = f"if it is a public corpus: unisono corpora get {path.parts[1]}; otherwise "
    raise DataError(
        f"there is no file {path}",
        where=where,
        fix=f"{hint}paths are relative to the directory you started in, {Path.cwd()}",
    )


def _likely(path: Path, named: set[Path]) -> str:
    """Return the name next to `path` that was probably meant, or "".

    The same name with an ending (.gz) is likelier than any other, and a file the settings
    name already, such as the other language, was not meant.
    """
    if not path.parent.is_dir():
        return ""
    names = sorted(entry.name for entry in path.parent.iterdir() if entry not in named)
    packed = [name for name in names if name.startswith(f"{path.name}.")]
    return next(iter(packed or get_close_matches(path.name, names, n=1, cutoff=_ALIKE)), "")
