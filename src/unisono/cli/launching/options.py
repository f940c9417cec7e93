"""The options of `unisono launch`, and which of them go together."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from unisono.cli.options import PathType, fewest_option, restarts_option
from unisono.errors import ConfigError
from unisono.launch.plan import RENDEZVOUS_PORT
from unisono.printable import refuse_control
from unisono.secure.secret import SECRET

F = TypeVar("F", bound=Callable[..., Any])
MODES = ("hosts", "slurm", "kubernetes")
# Options that are not listed here are allowed everywhere.
MODES_OF_OPTION = {
    "restarts": ("", "hosts"),
    **dict.fromkeys(
        (
            *("ssh_config", "address", "port", "check", "fewest", "firewall"),
            *("records", "fetch_checkpoints", "detach", "remind"),
            *("sync", "offline", "lock", "remove_unused", "teardown", "with_runs"),
        ),
        ("hosts",),
    ),
    **dict.fromkeys(("time_limit", "partition", "sbatch"), ("slurm",)),
    **dict.fromkeys(("image", "volume", "resource", "name"), ("kubernetes",)),
    **dict.fromkeys(("directory", "python", "env"), MODES),
    **dict.fromkeys(("nodes", "output"), ("slurm", "kubernetes")),
}
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def _text(*names: str, about: str, metavar: str | None = None) -> Callable[[F], F]:
    return click.option(*names, default="", metavar=metavar, help=about)


def _repeatable(name: str, metavar: str, about: str) -> Callable[[F], F]:
    return click.option(name, multiple=True, metavar=metavar, help=f"{about}; repeatable.")


_HOSTS = (
    _text("--hosts", metavar="A,B:2", about="Machines to use over ssh; B:2 gets 2 processes."),
    _text(
        "--directory",
        metavar="DIR",
        about="Working directory on the machines; default: this one.",
    ),
    _text(
        "--python", metavar="PATH", about="Python to use on the machines; default: this one."
    ),
    _repeatable("--env", "NAME=VALUE", "Environment variable for all processes"),
    click.option("--ssh-config", type=PathType, help="File to use instead of ~/.ssh/config."),
    _text("--address", about="Address under which the others reach the first host."),
    click.option(
        "--port",
        default=RENDEZVOUS_PORT,
        show_default=True,
        type=click.IntRange(1024, 65535),
        help="Port on the first host for the rendezvous of the agents.",
    ),
)
_BRINGING = (
    click.option(
        "--sync",
        is_flag=True,
        help="First bring packages, Unisono, config and corpus to the hosts, as far as they "
        "differ; ssh and Python 3.11 there are enough.",
    ),
    click.option(
        "--offline",
        is_flag=True,
        help="With --sync, fetch the packages here and bring them, too.",
    ),
    click.option(
        "--lock",
        type=PathType,
        multiple=True,
        metavar="FILE",
        help="With --sync, lock file with hashes to install instead of Unisono's; repeatable.",
    ),
    click.option(
        "--remove-unused",
        is_flag=True,
        help="With --sync, remove what earlier launches brought and this run does not need, "
        "unless a run goes on there.",
    ),
)
_WHERE = (
    restarts_option,
    fewest_option,
    _HOSTS[0],
    click.option("--slurm", is_flag=True, help="Submit a Slurm job."),
    click.option("--kubernetes", is_flag=True, help="Write a manifest for Kubeflow Trainer."),
    *_BRINGING,
    click.option(
        "--teardown",
        is_flag=True,
        help="Remove from the hosts what --sync brought there, and nothing else.",
    ),
    click.option(
        "--with-runs",
        is_flag=True,
        help="With --teardown, also remove the runs' records there.",
    ),
    click.option("--check", is_flag=True, help="Only check the hosts and their links."),
    click.option(
        "--firewall",
        is_flag=True,
        help="Keep other machines from the run's ports while it lasts (nft, needs root there).",
    ),
    click.option(
        "--detach",
        is_flag=True,
        help="Start, and leave: the run goes on without this machine. See `unisono attach`.",
    ),
    click.option(
        "--records",
        type=PathType,
        metavar="DIR",
        help="Directory here for the records of all machines; default: that of the run.",
    ),
    click.option(
        "--fetch-checkpoints", is_flag=True, help="Bring checkpoints here, too, as they come."
    ),
    click.option(
        "--remind",
        default=0.0,
        metavar="MINUTES",
        type=click.FloatRange(0),
        help="Stay after the end, and say so often what the idle machines cost ([cost]).",
    ),
    *_HOSTS[1:],
    click.option(
        "--nodes",
        default=2,
        show_default=True,
        type=click.IntRange(1),
        help="Number of machines to request from the cluster.",
    ),
    click.option("--output", type=PathType, metavar="FILE", help="File to write the job to."),
    _text("--time", "time_limit", metavar="LIMIT", about="Slurm time limit, e.g. 12:00:00."),
    _text("--partition", about="Slurm partition to submit to."),
    _repeatable("--sbatch", "KEY=VALUE", "Option of sbatch, such as account=mt or exclusive"),
    _text("--name", about="Name of the TrainJob; default: that of the config."),
    _text("--image", about="Container image that contains Unisono."),
    _repeatable("--volume", "CLAIM:/PATH", "Persistent volume claim and its mount path"),
    _repeatable("--resource", "NAME=AMOUNT", "Resource limit of each node: nvidia.com/gpu=2"),
)


def where_options(function: F) -> F:
    """Add the options that choose where to train."""
    return _with(_WHERE, function)


def host_options(function: F) -> F:
    """Add the options for machines reached over ssh."""
    return _with(_HOSTS, function)


def bring_options(function: F) -> F:
    """Add the options for machines that have nothing yet."""
    return _with(_BRINGING, function)


def _with(options: Sequence[Callable[[F], F]], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def mode_of(context: click.Context) -> str:
    """Return "hosts", "slurm", "kubernetes" or ""; options of another mode are errors."""
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }
    refuse_control(context.params, where="launch")
    modes = [name for name in MODES if context.params[name]]
    if len(modes) > 1:
        raise ConfigError(
            f"{' and '.join(f'--{name}' for name in modes)} exclude each other",
            where="launch",
            fix="choose one",
        )
    mode = modes[0] if modes else ""
    for name in sorted(given & MODES_OF_OPTION.keys()):
        if mode not in MODES_OF_OPTION[name]:
            option = _option_of(context, name)
            wanted = " or ".join(f"--{one}" for one in MODES_OF_OPTION[name] if one)
            raise ConfigError(
                f"{option} has no effect {f'with --{mode}' if mode else 'on this machine'}",
                where=option,
                fix=f"leave it out, or add {wanted}" if not mode else "leave it out",
            )
    return mode


def parse_variables(texts: Sequence[str], *, where: str) -> dict[str, str]:
    """Parse NAME=VALUE, where NAME is that of an environment variable."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or _VARIABLE.fullmatch(name) is None:
            raise ConfigError(
                f'"{text}" does not set a variable', where=where, fix="write NAME=VALUE"
            )
        if name == SECRET:
            raise ConfigError(
                f"{SECRET} does not go through arguments, which every user can read",
                where=where,
                fix="leave it out; launch makes a secret for each run and hands it over",
            )
        pairs[name] = value
    return pairs


def remote_directory(directory: str) -> str:
    """Return the working directory on another machine; default: the current one here."""
    return directory or str(Path.cwd())


def _option_of(context: click.Context, name: str) -> str:
    found = next(one for one in context.command.params if one.name == name)
    return found.opts[0]
