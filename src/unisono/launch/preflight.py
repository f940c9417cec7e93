"""What differs between machines that are to train together.

Whether all machines are ready for a run, asked of all at once before anything starts.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeVar

from unisono.clock_skew import CLOCK_FIX, ClockOffset, compare_clocks, measure_offset
from unisono.launch.plan import Host
from unisono.launch.probe_client import (
    Answer,
    ClockReading,
    Connect,
    Connected,
    Describe,
    Facts,
    Failed,
    Listen,
    Listening,
    ProbeClient,
    Question,
    Tell,
    Trouble,
    UnreachableError,
)
from unisono.launch.ssh import Ssh
from unisono.units import amount_of_bytes

MOST_SETTINGS = 5


@dataclass(frozen=True)
class MachineReport:
    """One machine: what it says, by how much its clock is ahead of ours, what is wrong."""

    host: Host
    facts: Facts = Facts()
    clock: ClockOffset = ClockOffset()
    troubles: tuple[Trouble, ...] = ()


def differences_between(
    reports: Sequence[MachineReport], settings: Mapping[str, Any]
) -> Iterator[tuple[str, list[Trouble]]]:
    """Yield for every host what is not as on the first one, or not as `settings` say."""
    known = [report for report in reports if not report.troubles]
    for report in known:
        yield (
            report.host.name,
            [
                *_versions(report, known[0]),
                *_settings(report.facts.settings, settings),
                *_corpus(report, known[0]),
                *_room(report.facts),
                *_clock(report, known[0]),
            ],
        )


def changes(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = ""
) -> Iterator[str]:
    """Yield the settings that differ, as "train.max_steps is 3, here it is 5"."""
    for key in sorted(ours.keys() | theirs.keys()):
        here, there = ours.get(key), theirs.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            yield from changes(here, there, f"{path}{key}.")
        elif here != there:
            yield f"{path}{key} is {there!r}, here it is {here!r}"


def _versions(report: MachineReport, first: MachineReport) -> Iterator[Trouble]:
    ours, theirs, name = first.facts, report.facts, first.host.name
    for what, here, there in (
        ("Unisono", ours.unisono, theirs.unisono),
        ("torch", ours.torch, theirs.torch),
        ("Python", ours.python, theirs.python),
    ):
        if here != there:
            yield Trouble(
                f"it has {what} {there or '(none)'}, {name} has {here or '(none)'}",
                fix=f"install the same {what} on both, or name another Python with --python",
            )
    if ours.unisono == theirs.unisono and ours.code != theirs.code:
        yield Trouble(
            f"its Unisono {theirs.unisono} is not the code of {name} "
            f"({theirs.code}, not {ours.code})",
            fix="install or check out the same on both",
        )


def _settings(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[Trouble]:
    found = list(changes(here, there))
    if found:
        shown = "; ".join(found[:MOST_SETTINGS])
        more = f"; and {len(found) - MOST_SETTINGS} more" if len(found) > MOST_SETTINGS else ""
        yield Trouble(
            f"its settings differ: {shown}{more}", fix="copy the config file from here to there"
        )


def _corpus(report: MachineReport, first: MachineReport) -> Iterator[Trouble]:
    ours, theirs = first.facts, report.facts
    if ours.corpus != theirs.corpus:
        yield Trouble(
            f"its corpus is {theirs.corpus} ({theirs.pairs:,} pairs), {first.host.name} has "
            f"{ours.corpus} ({ours.pairs:,} pairs)",
            fix="copy the corpus directory from one to the other",
        )


def _room(facts: Facts) -> Iterator[Trouble]:
    if facts.free_bytes < facts.needed_bytes:
        yield Trouble(
            f"{amount_of_bytes(facts.free_bytes)} are free, and the checkpoints may take "
            f"{amount_of_bytes(facts.needed_bytes)}",
            facts.run,
            "make room there, or choose another directory with --set run=…",
        )


def _clock(report: MachineReport, first: MachineReport) -> Iterator[Trouble]:
    offset = report.clock.relative_to(first.clock)
    clocks = compare_clocks(offset, report.host.name, first.host.name)
    if clocks.is_doubtful:
        yield Trouble(clocks.text, fix=CLOCK_FIX)


SSH_CLOCK_ROUNDS = 5
ALONE = "127.0.0.1"
A = TypeVar("A", bound=Answer)


@dataclass(frozen=True)
class Journey:
    """What is to run where. `settings` are those of the run as they are known here.

    `addresses` are of the first host; unless `may_ask` is off, it may name further ones.
    """

    hosts: tuple[Host, ...]
    question: Describe
    settings: Mapping[str, Any]
    python: str
    port: int
    addresses: tuple[str, ...]
    may_ask: bool = True


@dataclass(frozen=True)
class PreflightResult:
    """All machines, and the address at which they can meet if nothing is wrong."""

    reports: tuple[MachineReport, ...]
    troubles: Mapping[str, Sequence[Trouble]] = field(default_factory=dict)
    address: str = ""


def examine(
    ssh: Ssh, journey: Journey, tell: Callable[[MachineReport], None]
) -> PreflightResult:
    """Ask all hosts at once; `tell` hears of each as it has answered."""

    def meet(host: Host) -> tuple[ProbeClient, MachineReport]:
        conversation = talks.enter_context(ProbeClient(ssh, host.name, journey.python))
        report = interview(conversation, host, journey.question)
        tell(report)
        return conversation, report

    with ExitStack() as talks, ThreadPoolExecutor(len(journey.hosts)) as threads:
        met = list(threads.map(meet, journey.hosts))
        reports = tuple(report for _, report in met)
        troubles = gathered(
            ((report.host.name, report.troubles) for report in reports),
            differences_between(reports, journey.settings),
        )
        if troubles:
            return PreflightResult(reports, troubles)
        conversations = [conversation for conversation, _ in met]
        address, troubles = find_address(conversations, journey, reports[0], threads)
        return PreflightResult(reports, troubles, address)


def interview(conversation: ProbeClient, host: Host, question: Describe) -> MachineReport:
    """Ask one machine about itself and its clock."""
    try:
        facts = conversation.ask(question, Facts)
        if isinstance(facts, Failed):
            return MachineReport(host, troubles=(Trouble(facts.what, facts.where, facts.fix),))
        clock = measure_clock(conversation)
    except UnreachableError as error:
        return MachineReport(host, troubles=(Trouble(error.what, fix=error.fix),))
    return MachineReport(host, facts, clock, facts.troubles)


def measure_clock(conversation: ProbeClient) -> ClockOffset:
    """Return by how much the clock of a machine is ahead of the clock here."""

    def read_clock() -> float:
        reading = conversation.ask(Tell(), ClockReading)
        if isinstance(reading, Failed):
            raise UnreachableError(f"it does not answer what time it is: {reading.what}")
        return reading.time

    return measure_offset(read_clock, SSH_CLOCK_ROUNDS)


def find_address(
    conversations: Sequence[ProbeClient],
    journey: Journey,
    first: MachineReport,
    threads: ThreadPoolExecutor,
) -> tuple[str, dict[str, list[Trouble]]]:
    """Return an address at which all others reach the first host, or why there is none."""
    token = secrets.token_hex(16)
    port, name = journey.port, first.host.name
    heard = _ask(conversations[0], Listen(port, token), Listening)
    if isinstance(heard, Failed):
        fix = "stop what uses it, or choose another one with --port"
        return "", {name: [Trouble(f"port {port} cannot be used: {heard.what}", fix=fix)]}
    others = conversations[1:]
    if not others:
        return ALONE, {}
    troubles: dict[str, list[Trouble]] = {}
    further = tuple(first.facts.address) if journey.may_ask else ()
    for address in dict.fromkeys((*journey.addresses, *further)):
        question = Connect(address, port, token)
        answers = list(threads.map(_ask, others, repeat(question), repeat(Connected)))
        right = {a.address for a in answers if isinstance(a, Connected) and a.is_right}
        wrong = {
            host.name: [_unreached(answer, name, address, port)]
            for host, answer in zip(journey.hosts[1:], answers, strict=True)
            if isinstance(answer, Failed) or not answer.is_right
        }
        if not wrong:
            # A number needs no name server, and means the same on every machine.
            return (right.pop() if len(right) == 1 else address), {}
        troubles = gathered(troubles.items(), wrong.items())
    return "", troubles


def gathered(
    *sources: Iterable[tuple[str, Sequence[Trouble]]],
) -> dict[str, list[Trouble]]:
    """Return the troubles by host, without the hosts that have none."""
    found: dict[str, list[Trouble]] = {}
    for source in sources:
        for name, troubles in source:
            if troubles:
                found.setdefault(name, []).extend(troubles)
    return found


def _ask(conversation: ProbeClient, question: Question, answer: type[A]) -> A | Failed:
    try:
        return conversation.ask(question, answer)
    except UnreachableError as error:
        return Failed(error.what, fix=error.fix)


def _unreached(answer: Connected | Failed, name: str, address: str, port: int) -> Trouble:
    where = address if address == name else f"{name}, which is {address},"
    if isinstance(answer, Connected):
        return Trouble(
            f"another machine than {name} answers at {address} ({answer.address})",
            fix=f"give an address of {name} that means the same everywhere, with --address",
        )
    return Trouble(
        f"it cannot reach {where} at port {port}: {answer.what}",
        fix=f"let it through the firewall, choose another --port, or give an address of {name} "
        "that all machines reach, with --address",
    )
