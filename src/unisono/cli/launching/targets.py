"""Where `unisono launch` trains: `--hosts`, `--slurm` and `--kubernetes`."""

import secrets
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from unisono import atomic
from unisono.cli.launching.options import parse_variables, remote_directory
from unisono.cli.launching.streaming import (
    RecordOptions,
    launched_at,
    start_detached,
    streaming,
)
from unisono.cli.pages.progress import show_output
from unisono.errors import ConfigError, RunError
from unisono.exit_codes import PREEMPTED
from unisono.launch.batch_systems import (
    SlurmJob,
    TrainJob,
    check_name,
    check_variables,
    job_name,
    resources_of,
    sbatch_options,
    submit_slurm_job,
    volumes_of,
)
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
from unisono.launch.slots import MachineGpus, fill_slots, requested_workers
from unisono.launch.ssh import SSH_FAILED, Ssh, SshProcess, plan_hosts
from unisono.launch.stream.launch_record import LaunchRecord
from unisono.secure.secret import new_secret
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
    firewall: bool = False,
    **others: Any,
) -> int:
    """Check that all `hosts` are ready, then train on them; return the run's exit code."""
    where_to = RecordOptions.of(others)
    machines = parse_hosts(hosts, training.workers)
    ssh = Ssh(str(ssh_config) if ssh_config else "")
    places = (Place(python or sys.executable, remote_directory(directory)),) * len(machines)
    variables = parse_variables(env, where="--env")
    known = (address,) if address else (ssh.address_of(machines[0].name),)

    def plan(addresses: tuple[str, ...], hosts_with_slots: tuple[Host, ...]) -> list[Command]:
        rendezvous = RendezvousPoint(addresses[0], len(machines), secrets.token_hex(8), port)
        return plan_hosts(
            ssh,
            hosts_with_slots,
            rendezvous,
            training.arguments,
            places=places,
            run=training.settings.run,
            variables=variables,
            restarts=training.restarts,
            admitted=addresses if firewall else (),
            detached=where_to.detach and not check,
        )

    if dry_run:
        shown = fill_slots(machines, [MachineGpus()] * len(machines))
        commands = plan(known if len(machines) > 1 else (LOCAL_ADDRESS,), shown)
        _show_plan(ssh, machines, places, [] if check else commands)
        return 0
    # As the probes will return them: JSON has no tuples.
    settings = msgspec.json.decode(msgspec.json.encode(training.settings))
    config, overrides = str(training.config), training.overrides
    request = PreflightRequest(
        machines, places, config, overrides, settings, port, known, may_ask=not address
    )
    found = _check_ready(ssh, request)
    if check:
        training = replace(training, verb="selftest-part", words=("--part=short",))
    bare, may_lose = training.verb != "train", bool(training.restarts.fewest)
    _advise_firewall(port, () if firewall or bare else found.addresses)
    machines = fill_slots(machines, [report.facts.gpus for report in found.reports])
    commands = plan(found.addresses, machines)
    if bare:
        return _run(commands, machines, may_lose=may_lose, bare=True)[0]
    launched = launched_at(machines, places, training.settings.run, ssh_config, where_to)
    return _run_recorded(commands, machines, launched, where_to.records, may_lose=may_lose)


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
            _talk(f"{report.host.name:{width}} | {describe(report)}")

    _talk(f"checking whether {len(request.hosts)} machines are ready")
    result = run_preflight(ssh, request, notify)
    if not result.problems:
        _talk(f"all are ready; the rendezvous is at {result.addresses[0]}:{request.port}")
        return result
    for name, problems in result.problems.items():
        for problem in problems:
            _talk(f"{name:{width}} | {problem.what}")
            if problem.where:
                _talk(f"{'':{width}} |   where: {problem.where}")
            if problem.fix:
                _talk(f"{'':{width}} |   fix:   {problem.fix}")
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
        _talk(
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
        _talk(
            f"the connection to {', '.join(lost)} broke; the processes there end by themselves"
        )
    # Only the machine of process 0 may know how the run ended.
    codes = running.exit_codes
    return PREEMPTED if PREEMPTED in codes.values() else running.exit_code, codes


def launch_on_slurm(
    training: LaunchedTraining,
    *,
    dry_run: bool,
    nodes: int,
    time_limit: str,
    partition: str,
    sbatch: tuple[str, ...],
    directory: str,
    python: str,
    env: tuple[str, ...],
    output: Path | None,
    **_: Any,
) -> int:
    """Write a Slurm script and submit it."""
    further = sbatch_options(sbatch)
    job = SlurmJob(
        arguments=training.arguments,
        python=python or sys.executable,
        directory=remote_directory(directory),
        run=Path(training.settings.run),
        nodes=nodes,
        workers=requested_workers(training.workers, further),
        time_limit=time_limit,
        partition=partition,
        further=further,
        variables=parse_variables(env, where="--env"),
    )
    path = output or job.script_file
    if not time_limit and "time" not in job.further:
        _talk(
            "note: "
            "without --time, Slurm ends the job at the partition's own limit; if there is "
            "none, nothing asks the run to save before it is cancelled"
        )
    if dry_run:
        print(f"# would write {path}:\n{job.script()}# and submit it: sbatch --parsable {path}")
        return 0
    _write(path, job.script())
    number = submit_slurm_job(path)
    print(number)
    log = job.log.replace("%j", number)
    _talk(
        f"submitted job {number}: {path}\n"
        f"  see:    squeue --job {number}\n"
        f"  follow: tail -F {log}\n"
        f"  stop:   scancel {number} (saves; the same command continues)"
    )
    return 0


def launch_on_kubernetes(
    training: LaunchedTraining,
    *,
    dry_run: bool,
    nodes: int,
    name: str,
    image: str,
    volume: tuple[str, ...],
    resource: tuple[str, ...],
    directory: str,
    python: str,
    env: tuple[str, ...],
    output: Path | None,
    **_: Any,
) -> int:
    """Write a manifest, and print how to apply it."""
    if not image:
        raise ConfigError(
            "there is no container image", where="--image", fix="pass one that contains Unisono"
        )
    variables = parse_variables(env, where="--env")
    check_variables(variables)
    resources = resources_of(resource)
    job = TrainJob(
        name=check_name(name or job_name(training.config.stem)),
        image=image,
        arguments=training.arguments,
        nodes=nodes,
        workers=requested_workers(training.workers, resources),
        python=python or "python",
        directory=directory,
        variables=variables,
        volumes=volumes_of(volume),
        resources=resources,
    )
    path = output or Path(f"{job.name}.trainjob.json")
    relative = [] if directory else relative_paths(training)
    if relative:
        _talk(
            "note: "
            f"{', '.join(relative)} will be looked up in the image's working directory; choose "
            "another with --directory, such as the path of a --volume"
        )
    secret = path.with_name(f"{job.name}.secret.json")
    files = f"-f {secret} -f {path}"
    if dry_run:
        _talk(f"would write {secret} (a new secret) and {path}, for `kubectl apply {files}`:")
        print(job.text(), end="")
        return 0
    _write(path, job.text())
    _write(secret, job.new_secret_text(), mode=0o600)
    _talk(
        f"wrote {path}, and the secret of the run in {secret}: keep that one to yourself\n"
        f"  start:  kubectl apply {files}\n"
        f"  see:    kubectl get trainjob {job.name}\n"
        f"  follow: kubectl logs -f -l jobset.sigs.k8s.io/jobset-name={job.name} --prefix\n"
        f"  stop:   kubectl delete {files} (saves)"
    )
    return 0


def relative_paths(training: LaunchedTraining) -> list[str]:
    """Return the files and directories of a run whose paths are relative."""
    settings = training.settings
    paths = (training.config, settings.corpus.directory, settings.run)
    return [str(path) for path in paths if not Path(path).is_absolute()]


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(path, text.encode(), mode)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}",
            where="--output",
            fix="choose another file",
        ) from error


def _talk(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
