"""`unisono corpora`: list corpora, or get one."""

import sys
import time
from pathlib import Path

import click

from unisono.cli.options import PathType
from unisono.cli.pages.dataset import draw, entry_page, size_of
from unisono.datasets.builtin.write import ENTRY as BUILTIN_ENTRY
from unisono.datasets.builtin.write import write_builtin
from unisono.datasets.catalogue import BUILTIN, EXAMPLE, catalogue, find_entry
from unisono.datasets.corpus_directory import DATA_TOML, DOWNLOADS
from unisono.datasets.entry import Entry
from unisono.datasets.get import Got, get_corpus
from unisono.errors import ConfigError
from unisono.units import amount_of_bytes, duration

PAIRS, SEED = 200_000, 1
SMALL = 1_000_000
ROW = "{:<15} {:7} {:>11} {:>9}  {}"


@click.group()
def corpora() -> None:
    """List corpora, or get one."""


@corpora.command("list")
@click.argument("name", required=False)
def list_corpora(name: str | None) -> None:
    """List all corpora, or describe one.

    With NAME, show the sets and downloads of that corpus.
    """
    if name is not None:
        print(entry_page(BUILTIN_ENTRY if name == BUILTIN else find_entry(name)))
        return
    print(ROW.format("name", "from→to", "train pairs", "download", "what it is"))
    print(ROW.format(BUILTIN, "en→de", f"{PAIRS:,}", "none", "generated from a small grammar"))
    for name, entry in catalogue().items():
        pairs = entry.pairs("train")
        print(
            ROW.format(
                name,
                "→".join(entry.languages),
                f"{pairs:,}" if pairs else "?",
                size_of(entry),
                entry.description,
            )
        )
    print(
        f"\nopus:CORPUS/VERSION/FROM-TO  any corpus of opus.nlpl.eu: {EXAMPLE}"
        "\n./my.toml                    your own entry: see docs/how-to/corpora.md"
        "\n\n`unisono corpora get NAME` puts one into data/NAME. ? means unknown."
        "\n`unisono corpora list NAME` shows its sets and downloads."
    )


@corpora.command("get")
@click.argument("name")
@click.option(
    "--to", type=PathType, default=None, help="The directory to write to; data/NAME by default."
)
@click.option(
    "--from",
    "given",
    type=PathType,
    default=None,
    help="A directory with files you already have; the rest is downloaded.",
)
@click.option("--offline", is_flag=True, help="Never use the network.")
@click.option(
    "--only", multiple=True, metavar="SET", help="Get this set only; can be repeated."
)
@click.option("--seed", type=int, help=f"For builtin: the seed of the generator.  [{SEED}]")
@click.option(
    "--pairs",
    type=click.IntRange(1),
    help=f"For builtin: the number of training pairs.  [{PAIRS}]",
)
def get(
    name: str,
    to: Path | None,
    given: Path | None,
    offline: bool,
    only: tuple[str, ...],
    seed: int | None,
    pairs: int | None,
) -> None:
    """Download corpus NAME as text, one sentence a line, and verify it.

    NAME is one that `unisono corpora list` shows, opus:CORPUS/VERSION/FROM-TO, or the path of
    your own entry. Files that are there already are verified and not downloaded again.
    """
    if name == BUILTIN:
        _refuse(
            {"--from": given, "--offline": offline, "--only": only},
            "corpora other than builtin",
        )
        directory = to or Path("data") / name
        write_text(directory, seed=SEED if seed is None else seed, pairs=pairs or PAIRS)
        print(_next(directory, pairs or PAIRS), file=sys.stderr)
        return
    _refuse({"--seed": seed, "--pairs": pairs}, "builtin")
    entry = find_entry(name)
    directory = to or Path("data") / entry.name
    began = time.monotonic()
    got = draw(get_corpus(entry, directory, only=only, given=given, offline=offline))
    _tell(entry, got, duration(time.monotonic() - began))


def _refuse(options: dict[str, object], owner: str) -> None:
    for option, value in options.items():
        if value not in (None, False, ()):
            what = f"{option} is for {owner}"
            raise ConfigError(what, where="corpora get", fix="leave it out")


def write_text(directory: Path, *, seed: int, pairs: int) -> None:
    """Write the text of the built-in corpus, or verify what is there, and report it."""
    began = time.monotonic()
    made = write_builtin(directory, seed=seed, train=pairs)
    done = "" if made else ", already there and verified"
    took = duration(time.monotonic() - began)
    print(f"text {directory}: {pairs:,} training pairs{done} in {took}", file=sys.stderr)


def _tell(entry: Entry, got: Got, took: str) -> None:
    """Report what is there and which command comes next."""
    done = "got" if got.made else "already there and verified"
    lines = [f"corpus {entry.name} in {got.directory}: {done} in {took}"]
    width = max(len(item.name) for item in got.sets)
    for item in got.sets:
        sides = [got.text(item, language) for language in entry.languages]
        size = amount_of_bytes(sum(side.bytes for side in sides))
        note = f"  {item.note}" if item.note else ""
        lines.append(
            f"  {item.role:5}  {item.name:{width}}  {sides[0].lines:>9,} pairs  {size:>7}{note}"
        )
    if any(download.trust == "first use" for download in got.lock.downloads.values()):
        lines.append(
            "some files have no known checksum: lock.json records those of this download"
        )
    if (got.directory / DOWNLOADS).exists():
        lines.append(f"{got.directory / DOWNLOADS} is kept for next time; you may delete it")
    if entry.licence:
        lines.append(f"licence: {entry.licence}")
    if got.own_data_toml:
        lines.append(f"{got.directory / DATA_TOML} has changes of yours and was left as it is")
    train = [item for item in got.sets if item.role == "train"]
    pairs = sum(got.text(item, entry.languages[0]).lines for item in train)
    print("\n".join([*lines, _next(got.directory, pairs)]), file=sys.stderr)


def _next(directory: Path, pairs: int) -> str:
    """Name the next command; a small corpus is too little for a large model."""
    config = "tiny" if pairs < SMALL else "base"
    return (
        f"next: copy configs/{config}.toml, put {directory / DATA_TOML} in place of\n"
        "      its [data], name a corpus.directory, then: unisono prepare CONFIG"
    )
