"""Stragglers: which process, or which machine, the others wait for, and why it is late."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from unisono.diagnose.evidence.ledger import Ledger, LedgerRow

MOST_LATENESS = 0.70  # of all lateness
TYPICAL = 0.40  # of it, by which the typical process of a slow machine is late
MATES = 0.50  # of what others wait, below which those on its machine are late with a rank


@dataclass(frozen=True)
class Late:
    """The rank that costs the others most, and all `ranks` that are late with it.

    `host` is the machine of all of them if they are several: it is slow then, and they take
    turns in being last.
    """

    rank: int
    ranks: tuple[int, ...]
    host: str = ""

    @property
    def name(self) -> str:
        """Return which machine or rank it is."""
        return self.host or f"rank {self.rank}"

    @property
    def words(self) -> str:
        """Name whom the others wait for."""
        return f"the processes on {self.host}" if self.host else f"rank {self.rank}"

    def cost(self, row: LedgerRow) -> float:
        """Return what `row` would save if these were as quick as the others."""
        if row.late_rank not in self.ranks:
            return 0.0
        return _elsewhere(row, self.ranks) if self.host else row.late_cost


def late_of(ledger: Ledger) -> Late | None:
    """Return the rank that causes most of the waiting, or the machine whose ranks do.

    None if ranks of all machines take turns.
    """
    lateness: dict[int, float] = defaultdict(float)
    for row in ledger.latest:
        lateness[row.late_rank] += row.late_cost
    total = sum(lateness.values())
    if total <= 0:
        return None
    latest = max(lateness, key=lambda rank: lateness[rank])
    alone = Late(latest, (latest,)) if lateness[latest] >= MOST_LATENESS * total else None
    if alone is None or _mates_are_late(ledger, latest):
        return _late_machine(ledger) or alone
    return alone


def _mates_are_late(ledger: Ledger, rank: int) -> bool:
    """Whether all processes on the machine of `rank` are late, and it is last by chance."""
    host = ledger.hosts.get(rank)
    mates = tuple(r for r, name in ledger.hosts.items() if name == host and r != rank)
    rows = [row for row in ledger.latest if row.late_rank == rank] if mates else []
    waited = sum(_elsewhere(row, (*mates, rank)) for row in rows)
    return sum(_here(row, mates) for row in rows) < MATES * waited


def _late_machine(ledger: Ledger) -> Late | None:
    rows = [row for row in ledger.latest if row.complete and not row.alone]
    last: dict[str, float] = defaultdict(float)  # what the others waited for it, by machine
    for row in rows:
        last[ledger.hosts.get(row.late_rank, "")] += _waited_for(row, ledger)
    host = max(last, key=lambda name: last[name], default="")
    ranks = tuple(sorted(rank for rank, name in ledger.hosts.items() if name == host))
    if not host or len(ranks) in (1, len(ledger.hosts)):
        return None
    # The machine with most processes has the last one most of the time, by chance alone. A slow
    # one's typical process is late, too.
    ahead = sum(_elsewhere(row, ranks) - _here(row, ranks) for row in rows)
    if last[host] < MOST_LATENESS * sum(last.values()) or ahead < TYPICAL * last[host]:
        return None
    cost = {rank: sum(r.late_cost for r in rows if r.late_rank == rank) for rank in ranks}
    return Late(max(cost, key=lambda rank: cost[rank]), ranks, host)


def _waited_for(row: LedgerRow, ledger: Ledger) -> float:
    host = ledger.hosts.get(row.late_rank)
    return _elsewhere(row, tuple(r for r in row.waits if ledger.hosts.get(r) == host))


def _elsewhere(row: LedgerRow, ranks: tuple[int, ...]) -> float:
    return median([wait for rank, wait in row.waits.items() if rank not in ranks] or [0.0])


def _here(row: LedgerRow, ranks: tuple[int, ...]) -> float:
    return median([wait for rank, wait in row.waits.items() if rank in ranks] or [0.0])


Kind = Literal["input", "tokens", "compute", "recording"]

INPUT, COMPUTE = ("data", "copy"), ("forward", "backward", "optimizer", "other")
# Of the arithmetic that a late process does longer: what more positions explain of it.
EXPLAINED = 0.5


@dataclass(frozen=True)
class Lateness:
    """A straggler, its machine, why it is late, and by how many seconds an update.

    `positions` is how many times as many positions it computes as the others do.
    """

    who: Late
    host: str
    kind: Kind
    seconds: float
    positions: float


def lateness_of(ledger: Ledger) -> Lateness | None:
    """Return why a rank or a machine is late in most updates.

    None if none is, if they take turns, or if the records of some ranks are missing.
    """
    late = late_of(ledger)
    if late is None:
        return None
    means = ledger.by_rank
    together = ledger.rows[-1].waits if ledger.rows else {}
    others = [rank for rank in together if rank not in late.ranks and rank in means]
    if not others or not all(rank in means for rank in late.ranks):
        return None

    def spent(ranks: Collection[int], parts: tuple[str, ...]) -> float:
        return fmean(sum(means[rank][part] for part in parts) for rank in ranks)

    def excess(parts: tuple[str, ...]) -> float:
        return spent(late.ranks, parts) - spent(others, parts)

    causes: dict[Kind, float] = {
        "input": excess(INPUT),
        "compute": excess(COMPUTE),
        "recording": excess(("recording",)),
    }
    kind = max(causes, key=lambda name: causes[name])
    positions = _positions(ledger, late.ranks, others)
    usual = spent(others, COMPUTE)
    if kind == "compute" and (positions - 1) * usual >= EXPLAINED * causes[kind] > 0:
        kind = "tokens"
    seconds = causes["compute" if kind == "tokens" else kind]
    host = ledger.hosts.get(late.rank, "an unknown host")
    return Lateness(late, host, kind, max(0.0, seconds), positions)


def _positions(ledger: Ledger, late: Collection[int], others: Collection[int]) -> float:
    """Return how many times the others' positions the late ranks compute; 1 if not known."""
    mean = ledger.positions
    theirs, usual = ([mean[r] for r in ranks if mean.get(r)] for ranks in (late, others))
    return fmean(theirs) / fmean(usual) if theirs and usual else 1.0
