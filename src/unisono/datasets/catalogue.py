"""Find the entry of a corpus: in the catalogue, by an OPUS pattern, or in a user's file."""

import re
from pathlib import Path

from unisono.datasets.entry import Entry, File, Set, Side, read_entry
from unisono.errors import ConfigError, suggest

PREFIX = "opus:"
EXAMPLE = "opus:Books/v1/de-en"

_LANGUAGE = r"[a-z]{2,3}(?:_[A-Za-z]{2,4})?"
_WORD = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}"
_PATTERN = re.compile(
    rf"opus:(?P<corpus>{_WORD})/(?P<version>{_WORD})/(?P<l1>{_LANGUAGE})-(?P<l2>{_LANGUAGE})"
)


def opus_entry(name: str) -> Entry:
    """Return the entry for `opus:CORPUS/VERSION/l1-l2`; l1 is the source language.

    OPUS keeps one archive for both directions, with its languages in alphabetical order, and
    publishes no checksums.
    """
    match = _PATTERN.fullmatch(name)
    if match is None or match["l1"] == match["l2"]:
        raise ConfigError(
            f'"{name}" does not name a corpus of OPUS',
            where="corpora get",
            fix=f"write opus:CORPUS/VERSION/SOURCE-TARGET, for example {EXAMPLE}",
        )
    corpus, version, source, target = match.group("corpus", "version", "l1", "l2")
    first, second = sorted((source, target))
    file = f"{corpus}-{version}-{first}-{second}.txt.zip"
    url = f"https://object.pouta.csc.fi/OPUS-{corpus}/{version}/moses/{first}-{second}.txt.zip"
    sides = {language: Side(file, (f"*.{language}",)) for language in (source, target)}
    return Entry(
        name=f"opus-{corpus}-{version}-{source}-{target}",
        description=f"{corpus} {version} from OPUS",
        languages=(source, target),
        file=(File(file, (url,)),),
        set=(Set(f"{corpus}-{version}", "train", sides),),
        licence="depends on the corpus: see https://opus.nlpl.eu",
        notes=("OPUS publishes no checksums: the first download is trusted and recorded.",),
    )


CATALOGUE = Path(__file__).parent / "entries"
BUILTIN = "builtin"


def catalogue() -> dict[str, Entry]:
    """Return the entries that come with the package, by name."""
    entries = [read_entry(path) for path in sorted(CATALOGUE.glob("*.toml"))]
    return {entry.name: entry for entry in entries}


def find_entry(name: str) -> Entry:
    """Return the entry that `name` stands for: a name, an OPUS pattern, or a path."""
    if name.lower().startswith(PREFIX):
        return opus_entry(name)
    if name.endswith(".toml") or "/" in name:
        return read_entry(Path(name))
    names = [path.stem for path in CATALOGUE.glob("*.toml")]
    if name in names:
        return read_entry(CATALOGUE / f"{name}.toml")
    stem, _, target = name.rpartition("-")
    stem, _, source = stem.rpartition("-")
    reverse = f"{stem}-{target}-{source}"
    fix = (
        f"get {reverse}: it is the same text; then swap source and target in the config"
        if reverse in names
        else f"{suggest(name, [*names, BUILTIN])}, {EXAMPLE}, or your own file: ./my.toml"
    )
    raise ConfigError(f'there is no corpus "{name}"', where="corpora get", fix=fix)
