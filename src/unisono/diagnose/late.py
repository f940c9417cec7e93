"""Which process, or which machine's processes, the others wait for."""

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from unisono.diagnose.ledger import Ledger, Row

MOST = 0.70  # of all lateness
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

    def cost(self, row: Row) -> float:
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
    alone = Late(latest, (latest,)) if lateness[latest] >= MOST * total else None
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
    if last[host] < MOST * sum(last.values()) or ahead < TYPICAL * last[host]:
        return None
    cost = {rank: sum(r.late_cost for r in rows if r.late_rank == rank) for rank in ranks}
    return Late(max(cost, key=lambda rank: cost[rank]), ranks, host)


def _waited_for(row: Row, ledger: Ledger) -> float:
    host = ledger.hosts.get(row.late_rank)
    return _elsewhere(row, tuple(r for r in row.waits if ledger.hosts.get(r) == host))


def _elsewhere(row: Row, ranks: tuple[int, ...]) -> float:
    return median([wait for rank, wait in row.waits.items() if rank not in ranks] or [0.0])


def _here(row: Row, ranks: tuple[int, ...]) -> float:
    return median([wait for rank, wait in row.waits.items() if rank in ranks] or [0.0])
