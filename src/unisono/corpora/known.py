"""Every way to name a corpus: in our catalogue, by pattern, or as a file of one's own."""

from pathlib import Path

from unisono.corpora.entry import Entry, read_entry
from unisono.corpora.opus import EXAMPLE, PREFIX, opus_entry
from unisono.errors import ConfigError, suggest

CATALOGUE = Path(__file__).parent / "catalogue"
BUILTIN = "builtin"


def catalogue() -> dict[str, Entry]:
    """Return all entries that come with the package, by name."""
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
        else f"{suggest(name, [*names, BUILTIN])}, {EXAMPLE}, or a file of your own: ./my.toml"
    )
    raise ConfigError(f'there is no corpus "{name}"', where="corpora get", fix=fix)
