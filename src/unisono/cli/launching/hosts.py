"""`unisono launch --hosts`: ask all machines whether they are ready, then train on them."""

import secrets
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from unisono.cli.launching.options import pairs_of, place_there
from unisono.cli.pages.progress import show_everywhere
from unisono.errors import ConfigError
from unisono.exit_codes import PREEMPTED
from unisono.launch.fan_out import FanOut
from unisono.launch.over_ssh import LOST, OverSsh, plan_hosts
from unisono.launch.plan import Command, Host, LaunchedTraining, RendezvousPoint, parse_hosts
from unisono.launch.preflight import ALONE, Journey, MachineReport, examine
from unisono.launch.probe_client import Describe, probe_command
from unisono.launch.ssh import Ssh
from unisono.units import amount_of_bytes


def launch_on_hosts(
    training: LaunchedTraining,
    *,
    dry_run: bool,
    hosts: str,
    check: bool,
    ssh_config: Path | None,
    directory: str,
    python: str,
    env: tuple[str, ...],
    address: str,
    port: int,
    **_: Any,
) -> int:
    """Train on the machines of `hosts`; return the exit code of the run."""
    machines = parse_hosts(hosts, training.workers)
    ssh = Ssh(str(ssh_config) if ssh_config else "")
    python, directory = python or sys.executable, place_there(directory)
    variables = pairs_of(env, where="--env")
    known = (address,) if address else (ssh.address_of(machines[0].name),)

    def plan(meeting_address: str) -> list[Command]:
        meeting = RendezvousPoint(meeting_address, len(machines), secrets.token_hex(8), port)
        return plan_hosts(
            ssh,
            machines,
            meeting,
            training.arguments,
            python=python,
            directory=directory,
            run=training.settings.run,
            variables=variables,
            restarts=training.restarts,
        )

    if dry_run:
        print("# first, on every machine at once: is it ready, and is it as the others?")
        for host in machines:
            print(Command(probe_command(ssh, host.name, python)).as_shell())
        if not check:
            print("# then, with the address at which all reach the first machine")
            for command in plan(known[0] if len(machines) > 1 else ALONE):
                print(command.as_shell())
        return 0
    question = Describe(directory, str(training.config), training.overrides)
    # As they will come back: JSON has no tuples.
    settings = msgspec.json.decode(msgspec.json.encode(training.settings))
    journey = Journey(machines, question, settings, python, port, known, not address)
    found = _examine(ssh, journey)
    if check:
        return 0
    bare = training.verb != "train"
    return _run(plan(found), machines, may_lose=bool(training.restarts.fewest), bare=bare)


def _examine(ssh: Ssh, journey: Journey) -> str:
    """Say how every host is; return where they can meet, or raise if one is not ready."""
    speaking = threading.Lock()
    width = max(len(host.name) for host in journey.hosts)

    def tell(report: MachineReport) -> None:
        with speaking:
            _talk(f"{report.host.name:{width}} | {describe(report)}")

    _talk(f"asking {len(journey.hosts)} machines whether they are ready")
    examination = examine(ssh, journey, tell)
    if not examination.troubles:
        _talk(f"all are ready, and meet at {examination.address}:{journey.port}")
        return examination.address
    for name, troubles in examination.troubles.items():
        for trouble in troubles:
            _talk(f"{name:{width}} | {trouble.what}")
            if trouble.where:
                _talk(f"{'':{width}} |   where: {trouble.where}")
            if trouble.fix:
                _talk(f"{'':{width}} |   fix:   {trouble.fix}")
    names = ", ".join(examination.troubles)
    raise ConfigError(
        f"not ready: {names}; nothing was started",
        where="--hosts",
        fix="see above; `unisono launch … --check` only asks",
    )


def describe(report: MachineReport) -> str:
    """Return what one line can say of a machine."""
    facts = report.facts
    if report.troubles:
        return "not ready"
    return (
        f"Unisono {facts.unisono}, torch {facts.torch}, Python {facts.python}, "
        f"{facts.pairs:,} pairs, {amount_of_bytes(facts.free_bytes)} free, "
        f"clock {report.clock.ahead:+.2f} s"
    )


def _run(
    commands: list[Command], machines: tuple[Host, ...], *, may_lose: bool, bare: bool
) -> int:
    jobs = {node: OverSsh(command.argv) for node, command in enumerate(commands)}
    running = FanOut(jobs, may_lose=may_lose)
    show_everywhere(running, [host.name for host in machines], bare=bare)
    lost = [machines[node].name for node, code in running.exit_codes.items() if code == LOST]
    if lost:
        _talk(f"the connection to {', '.join(lost)} broke; what ran there has ended by itself")
    # Only the machine of process 0 need know how the run ended.
    return PREEMPTED if PREEMPTED in running.exit_codes.values() else running.exit_code


def _talk(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
