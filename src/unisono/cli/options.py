"""Options that several verbs share."""

from pathlib import Path

import click

PathType = click.Path(path_type=Path)

config_argument = click.argument("config", type=PathType)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="TABLE.KEY=VALUE",
    help="Change a setting, such as run=runs/other; may be given several times.",
)
