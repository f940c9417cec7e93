"""Training on other machines over ssh: `unisono launch --hosts`."""

import secrets
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from unisono.cli.launching.bringing import BringOptions, bring_run, planned_run, tear_down
from unisono.cli.launching.options import parse_variables, remote_directory
from unisono.cli.launching.streaming import (
    RecordOptions,
    launched_at,
    start_detached,
    streaming,
    talk,
)
from unisono.cli.pages.progress import show_output
from unisono.diagnose.wording import count
from unisono.errors import ConfigError, RunError
from unisono.exit_codes import PREEMPTED
from unisono.launch.fan_out import FanOut
from unisono.launch.firewall import firewall_rules, removal
from unisono.launch.places import Place
from unisono.launch.plan import Command, Host, LaunchedTraining, RendezvousPoint, parse_hosts
from unisono.launch.preflight import (
    LOCAL_ADDRESS,
    MachineReport,
    PreflightRequest,
    PreflightResult,
    run_preflight,
)
from unisono.launch.probe_client import probe_command
from unisono.launch.slots import MachineGpus, fill_slots
from unisono.launch.ssh import SSH_FAILED, Ssh, SshProcess, plan_hosts
from unisono.launch.stream.launch_record import LaunchRecord
from unisono.secure.secret import new_secret
from unisono.units import amount_of_bytes


def launch_on_hosts(
    training: LaunchedTraining,
    *,
    dry_run: bool,
    hosts: str,
    ssh_config: Path | None,
    directory: str,
    python: str,
    **others: Any,
) -> int:
    """Train on all `hosts`, perhaps after bringing everything; return the run's exit code."""
    bringing, records = BringOptions.of(others), RecordOptions.of(others)
    machines = parse_hosts(hosts, training.workers)
    ssh = Ssh(str(ssh_config) if ssh_config else "")
    if bringing.teardown:
        return tear_down(
            ssh, machines, bringing, directory=directory, python=python, dry_run=dry_run
        )
    place = Place(python or sys.executable, remote_directory(directory))
    places, is_new = (place,) * len(machines), False
    if bringing.sync:
        act = planned_run if dry_run else bring_run
        brought = act(ssh, machines, training, bringing, directory=directory, python=python)
        records = replace(records, records=records.records or Path(training.settings.run))
        training, places, is_new = brought.training, brought.places, brought.is_new
    start = HostsLaunch(ssh, machines, places, records, ssh_config, **_ways(others))
    if dry_run:
        start.show(training)
        return 0
    return start.run(training, is_new=is_new)


def _ways(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options about how a run is started, as far as a command has them."""
    names = ("address", "port", "firewall", "check")
    chosen = {name: options[name] for name in names if name in options}
    return {**chosen, "variables": parse_variables(options["env"], where="--env")}


@dataclass(frozen=True)
class HostsLaunch:
    """How a run is started on machines that have everything."""

    ssh: Ssh
    machines: tuple[Host, ...]
    places: tuple[Place, ...]
    records: RecordOptions
    ssh_config: Path | None
    variables: Mapping[str, str]
    address: str
    port: int
    firewall: bool = False
    check: bool = False

    def show(self, training: LaunchedTraining) -> None:
        """Print what would be done."""
        shown = fill_slots(self.machines, [MachineGpus()] * len(self.machines))
        known = self._known() if len(self.machines) > 1 else (LOCAL_ADDRESS,)
        commands = [] if self.check else self._commands(training, known, shown)
        _show_plan(self.ssh, self.machines, self.places, commands)

    def run(self, training: LaunchedTraining, *, is_new: bool) -> int:
        """Check that all machines are ready, then train; return the run's exit code.

        With `check`, and if what they have `is_new`, make a short self-test.
        """
        found = _check_ready(self.ssh, self._request(training))
        machines = fill_slots(self.machines, [report.facts.gpus for report in found.reports])
        may_lose, bare = bool(training.restarts.fewest), training.verb != "train"
        if self.check or (is_new and not bare):
            tested = replace(training, verb="selftest-part", words=("--part=short",))
            commands = self._commands(tested, found.addresses, machines)
            code = _run(commands, machines, may_lose=may_lose, bare=True)[0]
            if self.check or code:
                return code
        commands = self._commands(training, found.addresses, machines)
        if bare:
            return _run(commands, machines, may_lose=may_lose, bare=True)[0]
        _advise_firewall(self.port, () if self.firewall else found.addresses)
        run, records = training.settings.run, self.records
        launched = launched_at(machines, self.places, run, self.ssh_config, records)
        return _run_recorded(commands, machines, launched, records.records, may_lose=may_lose)

    def _known(self) -> tuple[str, ...]:
        return (self.address or self.ssh.address_of(self.machines[0].name),)

    def _request(self, training: LaunchedTraining) -> PreflightRequest:
        # As the probes will return them: JSON has no tuples.
        settings = msgspec.json.decode(msgspec.json.encode(training.settings))
        return PreflightRequest(
            self.machines,
            self.places,
            str(training.config),
            training.overrides,
            settings,
            self.port,
            self._known(),
            may_ask=not self.address,
        )

    def _commands(
        self, training: LaunchedTraining, addresses: tuple[str, ...], hosts: tuple[Host, ...]
    ) -> list[Command]:
        rendezvous = RendezvousPoint(addresses[0], len(hosts), secrets.token_hex(8), self.port)
        return plan_hosts(
            self.ssh,
            hosts,
            rendezvous,
            training.arguments,
            places=self.places,
            run=training.settings.run,
            variables=self.variables,
            restarts=training.restarts,
            admitted=addresses if self.firewall else (),
            detached=self.records.detach and not self.check and training.verb == "train",
        )


def _run_recorded(
    commands: list[Command],
    machines: tuple[Host, ...],
    launched: LaunchRecord,
    records: Path | None,
    *,
    may_lose: bool,
) -> int:
    """Run the commands and fetch their records, or leave them to themselves if detached."""
    here = records or Path(launched.run)
    if launched.detached:
        return start_detached(launched, here, lambda: _run(commands, machines))
    with streaming(launched, here):
        return _run(commands, machines, may_lose=may_lose)[0]


def _show_plan(
    ssh: Ssh,
    machines: tuple[Host, ...],
    places: tuple[Place, ...],
    commands: list[Command],
) -> None:
    print("# first, on all machines at once: are they ready and alike?")
    for host, place in zip(machines, places, strict=True):
        print(Command(probe_command(ssh, host.name, place.python)).as_shell())
    if commands:
        print("# then, with the address under which all reach the first machine:")
        if not all(host.slots for host in machines):
            print("# (each machine gets a process for each of its GPUs; here: no GPU)")
    for command in commands:
        print(command.as_shell())


def _check_ready(ssh: Ssh, request: PreflightRequest) -> PreflightResult:
    """Print the state of every host; return what was found, or raise an error."""
    printing = threading.Lock()
    width = max(len(host.name) for host in request.hosts)

    def notify(report: MachineReport) -> None:
        with printing:
            talk(f"{report.host.name:{width}} | {describe(report)}")

    hosts = len(request.hosts)
    talk(f"checking whether {count(hosts, 'machine')} {'are' if hosts > 1 else 'is'} ready")
    result = run_preflight(ssh, request, notify)
    if not result.problems:
        talk(f"all are ready; the rendezvous is at {result.addresses[0]}:{request.port}")
        return result
    for name, problems in result.problems.items():
        for problem in problems:
            talk(f"{name:{width}} | {problem.what}")
            if problem.where:
                talk(f"{'':{width}} |   where: {problem.where}")
            if problem.fix:
                talk(f"{'':{width}} |   fix:   {problem.fix}")
    raise ConfigError(
        f"not ready: {', '.join(result.problems)}; nothing was started",
        where="--hosts",
        fix="see above; `unisono launch … --check` only checks",
    )


def _advise_firewall(port: int, addresses: tuple[str, ...]) -> None:
    """Print how to keep strangers from the ports of a run on the machines at `addresses`."""
    if len(addresses) < 2:
        return
    with suppress(RunError):  # one has no address in common with the others
        talk(
            "note: gloo and NCCL answer everybody who reaches their ports. To admit only these "
            "machines, pass --firewall, or run as root on each:\n"
            f"  nft '{firewall_rules(port, addresses)}'\n"
            f"  and after the run: nft '{removal(port)}'"
        )


def describe(report: MachineReport) -> str:
    """Return one line about a machine."""
    facts = report.facts
    if report.problems:
        return "not ready"
    gpus = f"{facts.gpus}, driver {facts.gpus.driver}, " if facts.gpus.processes else ""
    return (
        f"Unisono {facts.unisono}, torch {facts.torch}, Python {facts.python}, {gpus}"
        f"{facts.pairs:,} pairs, {amount_of_bytes(facts.free_bytes)} free, "
        f"clock {report.clock.ahead:+.2f} s"
    )


def _run(
    commands: list[Command],
    machines: tuple[Host, ...],
    *,
    may_lose: bool = False,
    bare: bool = False,
) -> tuple[int, Mapping[int, int]]:
    """Run the commands to their end; return the run's exit code and those of the nodes."""
    secret = new_secret()
    jobs = {node: SshProcess(command.argv, secret) for node, command in enumerate(commands)}
    running = FanOut(jobs, may_lose=may_lose)
    show_output(running, [host.name for host in machines], bare=bare)
    lost = [
        machines[node].name for node, code in running.exit_codes.items() if code == SSH_FAILED
    ]
    if lost:
        talk(
            f"the connection to {', '.join(lost)} broke; the processes there end by themselves"
        )
    # Only the machine of process 0 may know how the run ended.
    codes = running.exit_codes
    return PREEMPTED if PREEMPTED in codes.values() else running.exit_code, codes
