"""Where each second of an update went, on each machine and on average."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unisono.diagnose.evidence.ledger import Ledger, LedgerRow
from unisono.diagnose.wording import listing, percent
from unisono.records.events import StepTaken
from unisono.records.view import RunView
from unisono.units import duration

# Class of the style sheet and name, from the ground up.
BAR_PARTS = {
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "network": "exchange",
    "straggler": "waiting for a straggler",
    "data": "waiting for data",
    "rest": "recording and other",
}
MOST_BARS = 32


@dataclass(frozen=True)
class BarSegment:
    """A part of a bar. `share` is that of the widest bar, `of_bar` that of its own."""

    style: str
    label: str
    share: float
    of_bar: str


@dataclass(frozen=True)
class Bar:
    """A machine or a process: how long an update takes there, and of what it is made."""

    name: str
    total: str
    pieces: tuple[BarSegment, ...]


def parts_of_row(row: LedgerRow) -> dict[str, float]:
    """Return the seconds of each part of an update, mean over the processes.

    A process on its own exchanges nothing: the time measured there is its device finishing
    its work.
    """
    parts = row.parts
    finishing = parts["exchange"] + parts["agree"] if row.alone else 0.0
    return {
        "forward": parts["forward"],
        "backward": parts["backward"] + finishing,
        "optimizer": parts["optimizer"],
        "network": row.wire,
        "straggler": row.waiting,
        "data": parts["data"] + parts["copy"],
        "rest": parts["recording"] + parts["other"],
    }


def node_bars(run: RunView, ledger: Ledger) -> list[Bar]:
    """Return a bar for each machine, or for each process if all are on one machine."""
    wires = {row.step: None if row.alone else row.wire for row in ledger.usual}
    found: list[tuple[str, dict[str, float]]] = []
    for name, ranks in _groups(run):
        means = [_rank_parts(run.ranks.get(rank, ()), wires) for rank in ranks]
        known = [mean for mean in means if mean]
        if known:
            found.append((name, {p: sum(m[p] for m in known) / len(known) for p in BAR_PARTS}))
    widest = max((sum(parts.values()) for _, parts in found), default=0.0)
    return [_bar(name, parts, widest) for name, parts in found[:MOST_BARS] if widest > 0]


def _groups(run: RunView) -> list[tuple[str, list[int]]]:
    starts = run.last_starts
    if len(run.hosts) < 2:
        return [(f"{start.host}, process {start.rank}", [start.rank]) for start in starts]
    by_host: dict[str, list[int]] = {}
    for start in starts:
        by_host.setdefault(start.host, []).append(start.rank)
    return list(by_host.items())


def _rank_parts(
    steps: Sequence[StepTaken], wires: Mapping[int, float | None]
) -> dict[str, float]:
    """Return the mean seconds of each part on one process; nothing without updates.

    `wires` holds the updates that count and their time on the wire, None for one made alone.
    """
    sums, counted = dict.fromkeys(BAR_PARTS, 0.0), 0
    for step in steps:
        if step.step not in wires:
            continue
        counted += 1
        exchange, wire = step.exchange + step.agree, wires[step.step]
        named = step.forward + step.backward + step.optimizer + exchange
        named += step.data + step.copy
        sums["forward"] += step.forward
        sums["backward"] += step.backward + (exchange if wire is None else 0.0)
        sums["optimizer"] += step.optimizer
        sums["network"] += min(exchange, wire) if wire is not None else 0.0
        sums["straggler"] += max(0.0, exchange - wire) if wire is not None else 0.0
        sums["data"] += step.data + step.copy
        sums["rest"] += max(0.0, step.seconds - named)
    return {part: total / counted for part, total in sums.items()} if counted else {}


def _bar(name: str, parts: Mapping[str, float], widest: float) -> Bar:
    total = sum(parts.values())
    pieces = [
        BarSegment(
            style=part,
            label=f"{BAR_PARTS[part]}: {duration(seconds)}, {percent(seconds / total)}",
            share=seconds / widest,
            of_bar=percent(seconds / total),
        )
        for part, seconds in parts.items()
        if seconds > 0
    ]
    return Bar(name, duration(total), tuple(pieces))


def spoken(bar: Bar) -> str:
    """Describe a bar in words."""
    return f"{bar.name}, {bar.total}: {listing([piece.label for piece in bar.pieces])}"
