"""What differs between machines that are to train together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unisono.launch.hosts import Host
from unisono.launch.questions import Facts, Trouble
from unisono.units import amount_of_bytes

# torch's rendezvous compares times of different machines; see docs/launching.md.
CLOCK_SECONDS = 1.0
MOST_SETTINGS = 5


@dataclass(frozen=True)
class Report:
    """One machine: what it says, by how much its clock is ahead of ours, what is wrong."""

    host: Host
    facts: Facts = Facts()
    ahead_seconds: float = 0.0
    unsure_seconds: float = 0.0
    troubles: tuple[Trouble, ...] = ()


def differences_between(
    reports: Sequence[Report], settings: Mapping[str, Any]
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


def _versions(report: Report, first: Report) -> Iterator[Trouble]:
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


def _corpus(report: Report, first: Report) -> Iterator[Trouble]:
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


def _clock(report: Report, first: Report) -> Iterator[Trouble]:
    apart = report.ahead_seconds - first.ahead_seconds
    if abs(apart) > CLOCK_SECONDS + report.unsure_seconds + first.unsure_seconds:
        way = "ahead of" if apart > 0 else "behind"
        yield Trouble(
            f"its clock is {abs(apart):.1f} s {way} that of {first.host.name}",
            fix="synchronise the clocks (timedatectl set-ntp true); torch may otherwise train "
            "on each machine alone",
        )
