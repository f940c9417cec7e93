"""Options that several verbs share."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

PathType = click.Path(path_type=Path)


class Number(click.FloatRange):
    """A number within limits; it refuses "nan" and "inf"."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


def workers_option(about: str) -> Callable[[Any], Any]:
    """Return the option of commands that start processes; 0 if it is not given."""
    return click.option("--workers", default=0, metavar="N", type=click.IntRange(0), help=about)


config_argument = click.argument("config", type=PathType)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="TABLE.KEY=VALUE",
    help="Change a setting, such as run=runs/other; repeat it for several settings.",
)
restarts_option = click.option(
    "--restarts",
    default=0,
    metavar="N",
    type=click.IntRange(0),
    help="Restart after a loss, until N restarts in a row have made no progress.",
)
fewest_option = click.option(
    "--fewest",
    default=0,
    metavar="N",
    type=click.IntRange(0),
    help="When machines are lost, go on as long as N remain; 0 means that none may be lost.",
)
