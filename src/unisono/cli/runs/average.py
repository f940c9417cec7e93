"""`unisono average`: average several checkpoints into one bundle."""

import sys
from pathlib import Path

import click

from unisono.cli.options import PathType
from unisono.errors import ConfigError
from unisono.records.layout import RunDirectory


@click.command()
@click.argument("run", type=PathType)
@click.option(
    "--last",
    type=click.IntRange(1),
    default=None,
    help="Average this many of the newest checkpoints.",
)
@click.option(
    "--checkpoints",
    default="",
    metavar="NAME,NAME",
    help="Average these: names such as step-0001000, or paths to checkpoints of other runs.",
)
@click.option("--to", type=PathType, required=True, help="The bundle to write.")
@click.option("--dry-run", is_flag=True, help="Only show which checkpoints would be averaged.")
def average(run: Path, last: int | None, checkpoints: str, to: Path, dry_run: bool) -> None:
    """Average the weights of checkpoints of RUN into a bundle for `unisono translate`.

    Without --last or --checkpoints, average all checkpoints that the run has kept. They must
    have the same model and corpus. The bundle has no scores: use `translate` and `score`.
    """
    if last and checkpoints:
        raise ConfigError(
            "both --last and --checkpoints are given", where="average", fix="give one of them"
        )
    from unisono.train.checkpoints.checkpoint_mean import (
        last_checkpoints,
        sources_of,
        write_mean,
    )

    if checkpoints:
        home = RunDirectory(run).checkpoints
        given = [name.strip() for name in checkpoints.split(",") if name.strip()]
        paths = [Path(name) if "/" in name else home / name for name in given]
    else:
        paths = last_checkpoints(run, last or 0)
    sources = sources_of(paths)
    names = ", ".join(source.path.name for source in sources)
    print(f"the mean of {len(sources)} checkpoints: {names}", file=sys.stderr)
    if not dry_run:
        write_mean(sources, to)
        print(to)
