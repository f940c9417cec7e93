"""Whether all machines are ready for a run and alike, asked of all before anything starts."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeVar

from unisono.clock_skew import CLOCK_FIX, ClockOffset, compare_clocks, measure_offset
from unisono.launch.places import Place
from unisono.launch.plan import Host
from unisono.launch.probe_client import (
    ClockReading,
    Connect,
    Connected,
    Describe,
    Facts,
    Failed,
    Listen,
    Listening,
    ProbeClient,
    ProbeReply,
    ProbeRequest,
    Problem,
    ReadClock,
    UnreachableError,
)
from unisono.launch.slots import fewer_fix, too_many
from unisono.launch.ssh import Ssh
from unisono.units import amount_of_bytes

MOST_SETTINGS = 5
SSH_CLOCK_ROUNDS = 5
LOCAL_ADDRESS = "127.0.0.1"
ReplyT = TypeVar("ReplyT", bound=ProbeReply)


@dataclass(frozen=True)
class MachineReport:
    """One machine: its facts, by how much its clock is ahead of ours, and its problems."""

    host: Host
    facts: Facts = Facts()
    clock: ClockOffset = ClockOffset()
    problems: tuple[Problem, ...] = ()


def differences_between(
    reports: Sequence[MachineReport], settings: Mapping[str, Any]
) -> Iterator[tuple[str, list[Problem]]]:
    """Yield for every host how it differs from the first one or from `settings`."""
    known = [report for report in reports if not report.problems]
    for report in known:
        yield (
            report.host.name,
            [
                *_versions(report, known[0]),
                *_settings(report.facts.settings, settings),
                *_corpus(report, known[0]),
                *_room(report.facts),
                *_clock(report, known[0]),
                *_devices(report, known[0]),
            ],
        )


def differing_settings(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = ""
) -> Iterator[str]:
    """Yield the settings that differ, as "train.max_steps is 3, here it is 5"."""
    for key in sorted(ours.keys() | theirs.keys()):
        here, there = ours.get(key), theirs.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            yield from differing_settings(here, there, f"{path}{key}.")
        elif here != there:
            yield f"{path}{key} is {there!r}, here it is {here!r}"


def _versions(report: MachineReport, first: MachineReport) -> Iterator[Problem]:
    ours, theirs, name = first.facts, report.facts, first.host.name
    for what, here, there in (
        ("Unisono", ours.unisono, theirs.unisono),
        ("torch", ours.torch, theirs.torch),
        ("Python", ours.python, theirs.python),
    ):
        if here != there:
            yield Problem(
                f"it has {what} {there or '(none)'}, {name} has {here or '(none)'}",
                fix=f"install the same {what} on both, or choose another Python with --python",
            )
    if ours.unisono == theirs.unisono and ours.code != theirs.code:
        yield Problem(
            f"the code of its Unisono {theirs.unisono} differs from that of {name} "
            f"({theirs.code}, not {ours.code})",
            fix="install or check out the same code on both",
        )


def _settings(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[Problem]:
    found = list(differing_settings(here, there))
    if found:
        shown = "; ".join(found[:MOST_SETTINGS])
        more = f"; and {len(found) - MOST_SETTINGS} more" if len(found) > MOST_SETTINGS else ""
        yield Problem(
            f"its settings differ: {shown}{more}",
            fix="copy the config file from this machine to that one",
        )


def _corpus(report: MachineReport, first: MachineReport) -> Iterator[Problem]:
    ours, theirs = first.facts, report.facts
    if ours.corpus != theirs.corpus:
        yield Problem(
            f"its corpus is {theirs.corpus} ({theirs.pairs:,} pairs), {first.host.name} has "
            f"{ours.corpus} ({ours.pairs:,} pairs)",
            fix="copy the corpus directory from one machine to the other",
        )


def _room(facts: Facts) -> Iterator[Problem]:
    if facts.free_bytes < facts.needed_bytes:
        yield Problem(
            f"{amount_of_bytes(facts.free_bytes)} are free, but the checkpoints may take "
            f"{amount_of_bytes(facts.needed_bytes)}",
            facts.run,
            "free some space there, or choose another directory with --set run=…",
        )


def _devices(report: MachineReport, first: MachineReport) -> Iterator[Problem]:
    ours, theirs, slots = first.facts.gpus, report.facts.gpus, report.host.slots
    if bool(ours.processes) != bool(theirs.processes):
        yield Problem(
            f"it has {theirs}, {first.host.name} has {ours}: a run needs GPUs everywhere or "
            "nowhere",
            "device",
            'leave the machine without a GPU out, or set `device = "cpu"`',
        )
    elif theirs.processes and slots > theirs.processes:
        yield Problem(too_many(slots, theirs), "--workers", fewer_fix(theirs))


def _clock(report: MachineReport, first: MachineReport) -> Iterator[Problem]:
    offset = report.clock.relative_to(first.clock)
    clocks = compare_clocks(offset, report.host.name, first.host.name)
    if clocks.is_doubtful:
        yield Problem(clocks.text, fix=CLOCK_FIX)


@dataclass(frozen=True)
class PreflightRequest:
    """What will run where: each host has a place. `settings` are those of the run here.

    `addresses` are those of the first host; if `may_ask`, the host may name further ones.
    """

    hosts: tuple[Host, ...]
    places: tuple[Place, ...]
    config: str
    overrides: tuple[str, ...]
    settings: Mapping[str, Any]
    port: int
    addresses: tuple[str, ...]
    may_ask: bool = True


@dataclass(frozen=True)
class PreflightResult:
    """All machines, and if nothing is wrong, their addresses: first that of the rendezvous."""

    reports: tuple[MachineReport, ...]
    problems: Mapping[str, Sequence[Problem]] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()


def run_preflight(
    ssh: Ssh, request: PreflightRequest, notify: Callable[[MachineReport], None]
) -> PreflightResult:
    """Probe all hosts at once; call `notify` with each report as it arrives."""

    def probe_host(host: Host, place: Place) -> tuple[ProbeClient, MachineReport]:
        probe = opened.enter_context(ProbeClient(ssh, host.name, place.python))
        description = Describe(place.directory, request.config, request.overrides)
        report = probe_machine(probe, host, description)
        notify(report)
        return probe, report

    with ExitStack() as opened, ThreadPoolExecutor(len(request.hosts)) as threads:
        probed = list(threads.map(probe_host, request.hosts, request.places))
        reports = tuple(report for _, report in probed)
        problems = problems_by_host(
            ((report.host.name, report.problems) for report in reports),
            differences_between(reports, request.settings),
        )
        if problems:
            return PreflightResult(reports, problems)
        probes = [probe for probe, _ in probed]
        addresses, problems = find_addresses(probes, request, reports[0], threads)
        return PreflightResult(reports, problems, addresses)


def probe_machine(probe: ProbeClient, host: Host, description: Describe) -> MachineReport:
    """Ask one machine for its facts and its clock."""
    try:
        facts = probe.ask(description, Facts)
        if isinstance(facts, Failed):
            return MachineReport(host, problems=(facts,))
        clock = measure_clock(probe)
    except UnreachableError as error:
        return MachineReport(host, problems=(Problem(error.what, fix=error.fix),))
    return MachineReport(host, facts, clock, facts.problems)


def measure_clock(probe: ProbeClient) -> ClockOffset:
    """Return by how much the clock of a machine is ahead of the clock here."""

    def read_clock() -> float:
        reading = probe.ask(ReadClock(), ClockReading)
        if isinstance(reading, Failed):
            raise UnreachableError(f"it does not answer what time it is: {reading.what}")
        return reading.time

    return measure_offset(read_clock, SSH_CLOCK_ROUNDS)


def find_addresses(
    probes: Sequence[ProbeClient],
    request: PreflightRequest,
    first: MachineReport,
    threads: ThreadPoolExecutor,
) -> tuple[tuple[str, ...], dict[str, list[Problem]]]:
    """Return an address under which all others reach the first host, or the problems.

    After it follow the addresses of the others on the way there.
    """
    token = secrets.token_hex(16)
    port, name = request.port, first.host.name
    others = probes[1:]
    addresses = request.addresses if others else (LOCAL_ADDRESS,)
    reply = _ask(probes[0], Listen(port, token, addresses), Listening)
    if isinstance(reply, Failed):
        fix = "stop the program that uses it, or choose another one with --port"
        return (), {name: [Problem(f"cannot use port {port}: {reply.what}", fix=fix)]}
    if not others:
        return (LOCAL_ADDRESS,), {}
    problems: dict[str, list[Problem]] = {}
    further = tuple(first.facts.address) if request.may_ask else ()
    for address in dict.fromkeys((*request.addresses, *further)):
        attempt = Connect(address, port, token)
        replies = list(threads.map(_ask, others, repeat(attempt), repeat(Connected)))
        right = [r for r in replies if isinstance(r, Connected) and r.is_right]
        wrong = {
            host.name: [_unreached(reply, name, address, port)]
            for host, reply in zip(request.hosts[1:], replies, strict=True)
            if isinstance(reply, Failed) or not reply.is_right
        }
        if not wrong:
            numeric = {reply.address for reply in right}
            # A numeric address needs no resolver, and means the same on every machine.
            chosen = numeric.pop() if len(numeric) == 1 else address
            return (chosen, *(reply.source for reply in right)), {}
        problems = problems_by_host(problems.items(), wrong.items())
    return (), problems


def problems_by_host(
    *sources: Iterable[tuple[str, Sequence[Problem]]],
) -> dict[str, list[Problem]]:
    """Return the problems by host, without the hosts that have none."""
    found: dict[str, list[Problem]] = {}
    for source in sources:
        for name, problems in source:
            if problems:
                found.setdefault(name, []).extend(problems)
    return found


def _ask(probe: ProbeClient, request: ProbeRequest, reply: type[ReplyT]) -> ReplyT | Failed:
    try:
        return probe.ask(request, reply)
    except UnreachableError as error:
        return Failed(error.what, fix=error.fix)


def _unreached(reply: Connected | Failed, name: str, address: str, port: int) -> Problem:
    where = address if address == name else f"{name}, which is {address},"
    if isinstance(reply, Connected):
        return Problem(
            f"another machine than {name} answers at {address} ({reply.address})",
            fix=f"pass an address of {name} that means the same on all machines with --address",
        )
    return Problem(
        f"it cannot reach {where} at port {port}: {reply.what}",
        fix="open the port in the firewall, choose another --port, or pass an address of "
        f"{name} that all machines reach with --address",
    )
