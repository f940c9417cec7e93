"""The options of `unisono launch`, and which of them go together."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from unisono.cli.options import PathType, fewest_option, restarts_option
from unisono.errors import ConfigError
from unisono.launch.plan import PORT

F = TypeVar("F", bound=Callable[..., Any])
MODES = ("hosts", "slurm", "kubernetes")
# Whatever is not here goes with everything.
BELONGS_TO = {
    "restarts": ("", "hosts"),
    **dict.fromkeys(("ssh_config", "address", "port", "check", "fewest"), ("hosts",)),
    **dict.fromkeys(("time_limit", "partition", "sbatch"), ("slurm",)),
    **dict.fromkeys(("image", "volume", "resource", "name"), ("kubernetes",)),
    **dict.fromkeys(("directory", "python", "env"), MODES),
    **dict.fromkeys(("nodes", "output"), ("slurm", "kubernetes")),
}
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

_HOSTS = (
    click.option("--hosts", default="", metavar="A,B:2", help="The machines, over ssh."),
    click.option(
        "--directory", default="", metavar="DIR", help="Where to work there, if not as here."
    ),
    click.option("--python", default="", metavar="PATH", help="The Python there."),
    click.option(
        "--env",
        multiple=True,
        metavar="NAME=VALUE",
        help="A variable for all processes; may be given several times.",
    ),
    click.option("--ssh-config", type=PathType, help="Instead of ~/.ssh/config."),
    click.option("--address", default="", help="Where the others reach the first host."),
    click.option(
        "--port",
        default=PORT,
        show_default=True,
        type=click.IntRange(1024, 65535),
        help="Where the agents meet on the first host.",
    ),
)
_WHERE = (
    restarts_option,
    fewest_option,
    _HOSTS[0],
    click.option("--slurm", is_flag=True, help="Submit a job to Slurm."),
    click.option("--kubernetes", is_flag=True, help="Write a manifest for Kubeflow Trainer."),
    click.option("--check", is_flag=True, help="Only ask the hosts whether they are ready."),
    *_HOSTS[1:],
    click.option(
        "--nodes",
        default=2,
        show_default=True,
        type=click.IntRange(1),
        help="How many machines the cluster is asked for.",
    ),
    click.option("--output", type=PathType, metavar="FILE", help="Where to write the job."),
    click.option(
        "--time", "time_limit", default="", metavar="LIMIT", help="Slurm's, such as 12:00:00."
    ),
    click.option("--partition", default="", help="Slurm's."),
    click.option(
        "--sbatch",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any other option of sbatch, such as account=mt or exclusive.",
    ),
    click.option("--name", default="", help="Of the TrainJob; as the config if not given."),
    click.option("--image", default="", help="Container image with Unisono in it."),
    click.option(
        "--volume",
        multiple=True,
        metavar="CLAIM:/PATH",
        help="A persistent volume claim, and where it is mounted.",
    ),
    click.option(
        "--resource",
        multiple=True,
        metavar="NAME=AMOUNT",
        help="What each node gets, such as nvidia.com/gpu=2.",
    ),
)


def where_options(function: F) -> F:
    """Add the options that say where to train."""
    return _with(_WHERE, function)


def host_options(function: F) -> F:
    """Add the options of machines that are reached over ssh."""
    return _with(_HOSTS, function)


def _with(options: Sequence[Callable[[F], F]], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def mode_of(context: click.Context) -> str:
    """Return "hosts", "slurm", "kubernetes" or ""; options that contradict it are errors."""
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }
    modes = [name for name in MODES if context.params[name]]
    if len(modes) > 1:
        raise ConfigError(
            f"{' and '.join(f'--{name}' for name in modes)} contradict each other",
            where="launch",
            fix="choose one",
        )
    mode = modes[0] if modes else ""
    for name in sorted(given & BELONGS_TO.keys()):
        if mode not in BELONGS_TO[name]:
            option = _option_of(context, name)
            wanted = " or ".join(f"--{one}" for one in BELONGS_TO[name] if one)
            raise ConfigError(
                f"{option} means nothing {f'with --{mode}' if mode else 'on this machine'}",
                where=option,
                fix=f"leave it out, or add {wanted}" if not mode else "leave it out",
            )
    return mode


def pairs_of(texts: Sequence[str], *, where: str) -> dict[str, str]:
    """Read NAME=VALUE, where the name is that of a variable."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or _NAME.fullmatch(name) is None:
            raise ConfigError(
                f'"{text}" does not set a variable', where=where, fix="write NAME=VALUE"
            )
        pairs[name] = value
    return pairs


def place_there(directory: str) -> str:
    """Return the directory to work in on another machine: the same as here if none is said."""
    return directory or str(Path.cwd())


def _option_of(context: click.Context, name: str) -> str:
    found = next(one for one in context.command.params if one.name == name)
    return found.opts[0]
