"""`unisono pull`: fetch what a run recorded on other machines."""

import sys
from pathlib import Path

import click

from unisono.cli.launching.options import remote_directory
from unisono.cli.launching.streaming import finish, open_stream, remind_of_idle, talk
from unisono.cli.options import PathType
from unisono.errors import ConfigError
from unisono.exit_codes import DONE, FAILED
from unisono.launch.places import Place, read_places
from unisono.launch.plan import parse_hosts
from unisono.launch.stream.client import RemoteMachine
from unisono.launch.stream.launch_record import LaunchRecord, read_launch_record

PULL_SECONDS = 3600.0


@click.command()
@click.argument("run", type=PathType)
@click.option("--hosts", default="", metavar="A,B", help="Machines; default: as launched.")
@click.option(
    "--directory", default="", metavar="DIR", help="Directory there in which it was launched."
)
@click.option("--python", default="", metavar="PATH", help="Python there; default: this one.")
@click.option("--ssh-config", type=PathType, help="File to use instead of ~/.ssh/config.")
@click.option("--fetch-checkpoints", is_flag=True, help="Bring checkpoints here, too.")
@click.option(
    "--wait",
    default=60.0,
    show_default=True,
    type=click.FloatRange(1.0, PULL_SECONDS),
    help="Seconds to wait for machines that do not answer.",
)
def pull(
    run: Path,
    hosts: str,
    directory: str,
    python: str,
    ssh_config: Path | None,
    fetch_checkpoints: bool,
    wait: float,
) -> None:
    """Fetch into the directory RUN what the run recorded on the machines it trains on.

    What is here already does not come again, so you can repeat it, also while it trains. The
    machines are those of the launch, if it was called from here; otherwise name them.
    """
    launched = launch_of(run, hosts, directory, python, ssh_config)
    checkpoints = fetch_checkpoints or launched.checkpoints
    stream = open_stream(launched, run, create=False, checkpoints=checkpoints)
    stream.start()
    complete = finish(stream, wait)
    if complete:
        names = ", ".join(machine.host for machine in launched.machines)
        talk(f"{run} has all that {names} recorded")
        remind_of_idle(run)
    sys.exit(DONE if complete else FAILED)


def launch_of(
    run: Path,
    hosts: str = "",
    directory: str = "",
    python: str = "",
    config: Path | None = None,
) -> LaunchRecord:
    """Return how a run was launched, as recorded here, or as the options say."""
    known, brought = read_launch_record(run), read_places(run)
    if known is None and brought is not None:
        known = LaunchRecord(
            machines=tuple(
                RemoteMachine(host, place.python, place.directory)
                for host, place in brought.machines.items()
            ),
            run=brought.run,
            ssh_config=brought.ssh_config,
        )
    if known is None and not hosts:
        raise ConfigError(
            f"no launch on other machines is recorded in {run}",
            where="--hosts",
            fix="name the machines: --hosts a,b, and --directory if it is another one there",
        )
    places = {one.host: one for one in known.machines} if known else {}
    names = [host.name for host in parse_hosts(hosts, 0)] if hosts else list(places)
    machines = []
    for name in names:
        usual = places.get(name) or Place(sys.executable, remote_directory(""))
        machine = RemoteMachine(name, python or usual.python, directory or usual.directory)
        machines.append(machine)
    file = str(config.absolute()) if config else known.ssh_config if known else ""
    return LaunchRecord(
        machines=tuple(machines),
        run=known.run if known else str(run),
        ssh_config=file,
        detached=known.detached if known else False,
        checkpoints=known.checkpoints if known else False,
    )
