"""The ledger: where the time of every update went, over all processes.

R processes make an update together and finish it together, so the mean over processes of each
part adds up to the update. Time in the exchange is split by the process that waited least: it
was the last to arrive, so what it spent there was spent on the wire; whatever the others spent
beyond that, they spent waiting for it. (StepTaken: `backward` does not hold `exchange`.)
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from types import MappingProxyType

from unisono.diagnose.evidence.sessions import RunSession
from unisono.records.events import StepTaken
from unisono.records.view import RunView
from unisono.stopwatch import STEP_PARTS

LEDGER_PARTS = (*STEP_PARTS, "other")


@dataclass(frozen=True)
class LedgerRow:
    """One update. Seconds are means over the processes, but for those that follow `waiting`.

    `late_cost` is what the typical other process waited for the latest, `late_rank` which one
    that was, `waits` what each process waited for it, and `data_cost` how much sooner the last
    process would have reached the exchange had no process waited for data. `hidden` is the
    exchange that the backward pass hid, on the process where it was least. `complete` says
    that every process left a record; if not, the exchange cannot be split and counts as
    `wire`. `alone` says that one process made the update. The row stands for so many
    `updates`: more than one only where most of a long run are left out.
    """

    step: int
    first: bool
    seconds: float
    parts: dict[str, float]
    wire: float
    waiting: float
    late_cost: float
    data_cost: float
    late_rank: int
    complete: bool
    alone: bool
    waits: dict[int, float] = field(default_factory=dict)
    hidden: float = 0.0
    updates: int = 1

    @property
    def compute(self) -> float:
        """Return the seconds of forward, backward and optimizer.

        A process on its own waits for nobody: what is timed as `exchange` and `agree` there
        is its device finishing what it was given.
        """
        names = ["forward", "backward", "optimizer", *(["exchange", "agree"] * self.alone)]
        return sum(self.parts[name] for name in names)


@dataclass(frozen=True)
class Ledger:
    """Every update, and what came between updates. `wall` is the clock over all sessions.

    `starting` is what passed from the first sign of life of a session to its first update,
    `ending` from its last update to the end: going back to the best weights, writing the
    bundle. Neither holds evaluation or checkpoints; `last_pauses` are those after the last
    update.
    `undone` is work that a crash or a roll-back undid, evaluation and checkpoints included.
    `positions` are those that each rank computes in an update, on average; 0 is not known.
    `hosts` are the machines of the ranks.
    Of what each rank does, the last session counts: before, it may have been elsewhere.
    """

    rows: tuple[LedgerRow, ...]
    by_rank: dict[int, dict[str, float]]
    wall: float
    evaluation: float
    checkpoint: float
    starting: float = 0.0
    ending: float = 0.0
    last_pauses: float = 0.0
    undone: float = 0.0
    positions: dict[int, float] = field(default_factory=dict)
    hosts: dict[int, str] = field(default_factory=dict)

    @property
    def usual(self) -> tuple[LedgerRow, ...]:
        """Return the updates without the first of each session, if enough are left."""
        later = tuple(row for row in self.rows if not row.first)
        return later if len(later) >= 3 else self.rows

    @property
    def latest(self) -> tuple[LedgerRow, ...]:
        """Return the updates of the last session, if enough are left."""
        began = max((place for place, row in enumerate(self.rows) if row.first), default=0)
        later = self.rows[began:]
        return later if len(later) >= 3 else self.rows

    @property
    def complete(self) -> bool:
        """Return whether the exchange could be split for nearly all updates."""
        whole = sum(row.complete for row in self.rows)
        return whole >= 0.9 * len(self.rows)

    @property
    def seconds(self) -> dict[str, float]:
        """Return the seconds of each cause but `other`."""
        return {
            "compute": sum(row.updates * row.compute for row in self.rows),
            "network": sum(row.updates * row.wire for row in self.rows),
            "straggler": sum(row.updates * row.waiting for row in self.rows),
            "data": sum(
                row.updates * (row.parts["data"] + row.parts["copy"]) for row in self.rows
            ),
            "evaluation": self.evaluation,
            "checkpoint": self.checkpoint,
        }

    @property
    def waited_for(self) -> dict[int, float]:
        """Return for each rank the seconds that all others together waited for it."""
        total: dict[int, float] = defaultdict(float)
        for row in self.latest:
            if row.complete and not row.alone:
                total[row.late_rank] += sum(row.waits.values())
        return dict(total)

    @property
    def closed(self) -> float:
        """Return the share of the wall clock that has a name."""
        return 1.0 - self._nameless / self.wall if self.wall > 0 else 0.0

    @property
    def closed_between(self) -> float:
        """Return that share of the time from the first to the last update of each session.

        What comes before and after has a name by definition; here, timers have to prove it.
        """
        around = self.starting + self.ending + self.last_pauses + self.undone
        between = self.wall - around
        return max(0.0, 1.0 - self._nameless / between) if between > 0 else 0.0

    @property
    def _nameless(self) -> float:
        named = sum(self.seconds.values())
        named += sum(row.updates * row.parts["recording"] for row in self.rows)
        named += self.starting + self.ending + self.undone
        return max(0.0, self.wall - named)

    @property
    def updates(self) -> int:
        """Return how many updates the rows stand for."""
        return sum(row.updates for row in self.rows)

    def mean(self, part: str) -> float:
        """Return the mean seconds of `part` in a usual update."""
        return fmean(row.parts[part] for row in self.usual) if self.rows else 0.0

    @property
    def mean_step(self) -> float:
        return fmean(row.seconds for row in self.usual) if self.rows else 0.0


def keep_ledger(
    run: RunView,
    sessions: Sequence[RunSession],
    stands_for: Mapping[int, int] = MappingProxyType({}),
) -> Ledger:
    """Account for every update and for the time between updates.

    Where `run` has only some of the updates, `stands_for` says how many each of them is.
    """
    rows, columns = [], _by_step(run)
    previous = None
    for step in run.steps:
        if not math.isfinite(step.seconds):
            continue  # imported, and its time is not known
        session = _session_at(sessions, step.time)
        ranks = sorted(rank for rank in columns[step.step] if rank < session.size)
        records = [columns[step.step][rank] for rank in ranks]
        row = _row(records, ranks, session.size, first=session is not previous)
        rows.append(replace(row, updates=stands_for.get(step.step, 1)) if stands_for else row)
        previous = session
    latest = _of_the_last_session(run, sessions)
    evaluation = sum(e.seconds for e in run.validations if math.isfinite(e.seconds))
    evaluation += sum(event.seconds for event in run.tests)
    return Ledger(
        rows=tuple(rows),
        by_rank=_rank_means(latest),
        wall=sum(session.seconds for session in sessions),
        evaluation=evaluation,
        checkpoint=sum(event.stalled for event in run.saves),
        **_edges(run, sessions),
        undone=run.undone,
        positions={
            rank: fmean(step.own_positions for step in steps) for rank, steps in latest.items()
        },
        hosts={start.rank: start.host for start in run.last_starts},
    )


def _edges(run: RunView, sessions: Sequence[RunSession]) -> dict[str, float]:
    """Return the seconds before the first and after the last update, over all sessions."""
    starting = ending = last_pauses = 0.0
    told = [(event.time, event.seconds) for event in run.validations]
    told += [(event.time, event.stalled) for event in run.saves]
    told += [(event.time, event.seconds) for event in run.tests]
    for session in sessions:
        steps = [s for s in run.steps if session.began <= s.time <= session.last_seen]
        if not steps or not math.isfinite(steps[0].seconds):
            continue
        first, last = steps[0], steps[-1]
        pauses = [
            seconds
            for time, seconds in told
            if last.time < time <= session.last_seen and math.isfinite(seconds)
        ]
        starting += max(0.0, first.time - first.seconds - session.began)
        last_pauses += sum(pauses)
        if session.reason:  # otherwise nobody knows when it ended
            ending += max(0.0, session.last_seen - last.time - sum(pauses))
    return {"starting": starting, "ending": ending, "last_pauses": last_pauses}


def parts_of(step: StepTaken) -> dict[str, float]:
    """Return the seconds of each part of an update; `other` is what is left over."""
    known: dict[str, float] = {part: getattr(step, part) for part in STEP_PARTS}
    return {**known, "other": max(0.0, step.seconds - sum(known.values()))}


def _by_step(run: RunView) -> dict[int, dict[int, StepTaken]]:
    columns: dict[int, dict[int, StepTaken]] = defaultdict(dict)
    for rank, steps in run.ranks.items():
        for step in steps:
            columns[step.step][rank] = step
    return columns


def _session_at(sessions: Sequence[RunSession], time: float) -> RunSession:
    earlier = [session for session in sessions if session.began <= time]
    return earlier[-1] if earlier else sessions[0]


def _row(records: list[StepTaken], ranks: list[int], size: int, *, first: bool) -> LedgerRow:
    parts = [parts_of(record) for record in records]
    exchanges = [p["exchange"] + p["agree"] for p in parts]
    means = {part: fmean(p[part] for p in parts) for part in LEDGER_PARTS}
    complete = len(records) == size
    # Both together: where one direction is slow, its sender is through with the exchange first
    # and waits for the receiver in the agreement.
    wire = min(exchanges) if complete else fmean(exchanges)
    if size == 1:
        wire = 0.0
    waits = sorted(exchange - min(exchanges) for exchange in exchanges)
    without_data = [p["forward"] + p["backward"] + p["recording"] for p in parts]
    arrivals = [p["data"] + p["copy"] + w for p, w in zip(parts, without_data, strict=True)]
    return LedgerRow(
        step=records[0].step,
        first=first,
        seconds=fmean(record.seconds for record in records),
        parts=means,
        wire=wire,
        waiting=max(0.0, fmean(exchanges) - wire) if size > 1 else 0.0,
        late_cost=median(waits[1:]) if complete and len(waits) > 1 else 0.0,
        data_cost=max(arrivals) - max(without_data),
        late_rank=ranks[exchanges.index(min(exchanges))],
        complete=complete,
        alone=size == 1,
        waits={r: e - min(exchanges) for r, e in zip(ranks, exchanges, strict=True)},
        hidden=min(record.hidden for record in records),
    )


def _of_the_last_session(
    run: RunView, sessions: Sequence[RunSession]
) -> dict[int, tuple[StepTaken, ...]]:
    """Return each rank's updates of the last session, or all if those are too few."""
    began = sessions[-1].began if sessions else 0.0
    found = {}
    for rank, steps in run.ranks.items():
        later = tuple(step for step in steps if step.time >= began)
        found[rank] = later if len(later) >= 3 else steps
    return {rank: steps for rank, steps in found.items() if steps}


def _rank_means(ranks: Mapping[int, Sequence[StepTaken]]) -> dict[int, dict[str, float]]:
    means = {}
    for rank, steps in ranks.items():
        parts = [parts_of(step) for step in steps]
        means[rank] = {part: fmean(p[part] for p in parts) for part in LEDGER_PARTS}
    return means
