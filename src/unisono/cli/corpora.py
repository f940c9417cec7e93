"""`unisono corpora`: list corpora, or get one."""

import sys
import time
from pathlib import Path

import click

from unisono.cli.options import PathType
from unisono.corpora.builtin.write import write_builtin
from unisono.errors import ConfigError, suggest
from unisono.units import duration

KNOWN = {"builtin": "English→German from a little grammar, written by us; no download"}


@click.group()
def corpora() -> None:
    """List corpora, or get one."""


@corpora.command("list")
def list_corpora() -> None:
    """List the corpora that `get` knows."""
    for name, text in KNOWN.items():
        print(f"{name:16}{text}")


@corpora.command("get")
@click.argument("name")
@click.option(
    "--to", type=PathType, default=None, help="Where to write; data/NAME if not given."
)
@click.option("--seed", default=1, show_default=True, help="Another seed is another corpus.")
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=200_000,
    show_default=True,
    help="Training pairs.",
)
def get(name: str, to: Path | None, seed: int, pairs: int) -> None:
    """Write the text of corpus NAME, split into train, valid and test."""
    if name not in KNOWN:
        raise ConfigError(
            f'there is no corpus "{name}"', where="corpora get", fix=suggest(name, KNOWN)
        )
    write_text(to or Path("data") / name, seed=seed, pairs=pairs)


def write_text(directory: Path, *, seed: int, pairs: int) -> None:
    """Write the text of the built-in corpus, and say so."""
    began = time.monotonic()
    write_builtin(directory, seed=seed, train=pairs)
    took = duration(time.monotonic() - began)
    print(f"text {directory}: {pairs:,} training pairs in {took}", file=sys.stderr)
