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
restarts_option = click.option(
    "--restarts",
    default=0,
    metavar="N",
    type=click.IntRange(0),
    help="Start again after a loss, until N starts in a row have brought nothing.",
)
fewest_option = click.option(
    "--fewest",
    default=0,
    metavar="N",
    type=click.IntRange(0),
    help="How many machines are enough to go on when others are lost; 0 is all.",
)
