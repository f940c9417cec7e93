"""Options that several verbs share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from unisono.config.load import load_settings
from unisono.config.settings import Settings

PathType = click.Path(path_type=Path)

config_argument = click.argument("config", type=PathType)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="TABLE.KEY=VALUE",
    help="Change a setting; may be given several times.",
)
run_option = click.option("--run", type=str, default="", help="The run directory.")


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of everything that trains."""
    return config_argument(set_option(run_option(command)))


def settings_from(config: Path, overrides: tuple[str, ...], run: str) -> Settings:
    """Load the settings that the options describe."""
    settings = load_settings(config, overrides)
    return msgspec.structs.replace(settings, run=run) if run else settings
