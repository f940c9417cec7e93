"""What to prepare: the text files, the block of the corpus each becomes, and the settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from unisono.config.settings import CorpusSettings, Data, TextPair
from unisono.errors import ConfigError, DataError
from unisono.text.inherited import InheritedPieces
from unisono.text.normalise import Normalisation

_SIMILAR = 0.8  # how alike two names must be for one to be a misspelling of the other


@dataclass(frozen=True)
class RawPair:
    """A parallel text: two files, or two columns of one TSV file, and the block it becomes.

    For a TSV file `source` and `target` are the same path, and `columns` count from 1.
    `where` is the table of the settings that names the text.
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
        """Return the size of the files on disk, compressed or not."""
        return sum(path.stat().st_size for path in self.files)


@dataclass(frozen=True)
class PrepareProgress:
    """`done` of `total` units of a stage are finished; a `total` of 0 means unknown.

    Stages in order: "reading" (bytes of the input files), "reading a sample" (pairs),
    "learning pieces", "encoding" (pairs). If the corpus exists already, "comparing" and
    "verifying" (bytes) come first. Then "up to date" or "weights changed" ends it, or only the
    new sources are read and encoded, and "added" (sources) comes last.
    """

    stage: str
    done: int
    total: int
    unit: str = "pairs"


@dataclass(frozen=True)
class PrepareJob:
    """Turn the text of `inputs` into the corpus of `settings`, with `workers` processes.

    With 0 workers this process does everything itself. The pieces of a model that is there
    already, `like`, take the place of what the settings say about pieces.
    """

    data: Data
    settings: CorpusSettings
    inputs: list[RawPair]
    workers: int
    like: InheritedPieces | None = None

    @property
    def path(self) -> Path:
        return Path(self.settings.directory)

    @property
    def languages(self) -> tuple[str, str]:
        return self.data.source_language, self.data.target_language

    @property
    def normalise(self) -> Normalisation:
        """Return the normalisation of every line."""
        if self.like is not None:
            return self.like.normalisation
        return Normalisation(self.settings.plain_quotes, self.settings.lowercase)

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags that source lines may begin with."""
        if self.like is not None:
            return tuple(self.like.tokenizers.source.tags)
        used = (raw.tag for raw in self.inputs if raw.tag)
        return tuple(dict.fromkeys([*self.settings.tags, *used]))

    @property
    def train(self) -> list[RawPair]:
        """Return the training texts."""
        return [raw for raw in self.inputs if raw.split == "train"]

    @property
    def held_out(self) -> list[RawPair]:
        """Return the validation set and, if there is one, the test set."""
        return [raw for raw in self.inputs if raw.split != "train"]


def list_inputs(data: Data) -> list[RawPair]:
    """Check that every file exists and return all inputs, the held-out sets first."""
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
            _check_exists(path, raw.where, named)
    return inputs


def check_tags(job: PrepareJob) -> None:
    """Raise an error if a text has a tag that inherited pieces do not have."""
    for raw in job.inputs if job.like is not None else ():
        if raw.tag and raw.tag not in job.tags:
            raise ConfigError(
                f"the pieces of {job.like.origin if job.like else ''} have no tag {raw.tag}",
                where=raw.where,
                fix="leave the tag out, or use one of: " + (" ".join(job.tags) or "none"),
            )


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


def _check_exists(path: Path, where: str, named: set[Path]) -> None:
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
    """Return the name next to `path` that the user probably meant, or "".

    The same name with a suffix (.gz) comes first. A file that the settings already name, such
    as the other language, is never the answer.
    """
    if not path.parent.is_dir():
        return ""
    names = sorted(entry.name for entry in path.parent.iterdir() if entry not in named)
    compressed = [name for name in names if name.startswith(f"{path.name}.")]
    similar = get_close_matches(path.name, names, n=1, cutoff=_SIMILAR)
    return next(iter(compressed or similar), "")
