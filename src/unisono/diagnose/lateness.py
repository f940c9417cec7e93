"""Which process, or which machine, comes later than the others, and why."""

from collections import defaultdict
from dataclasses import dataclass

from unisono.diagnose.bottleneck import ONE_RANK_IS_LATE, late_rank
from unisono.diagnose.case import Case
from unisono.diagnose.why_late import Kind, why_all_late
from unisono.diagnose.words import listing

BEFORE_EXCHANGE = ("data", "copy", "forward", "backward", "recording")


@dataclass(frozen=True)
class Lateness:
    """Which ranks are late, why, and the seconds an update that they take longer.

    One rank, or all of a machine. `positions` is how many times as many positions they compute
    as the others do.
    """

    ranks: tuple[int, ...]
    host: str
    kind: Kind
    seconds: float
    positions: float

    @property
    def who(self) -> str:
        """Return the rank, or the machine with its ranks."""
        if len(self.ranks) == 1:
            return f"rank {self.ranks[0]}"
        return f"{self.host} (ranks {listing([str(rank) for rank in self.ranks])})"

    @property
    def about(self) -> str:
        """Return what tells this from another that is late."""
        return self.who if len(self.ranks) == 1 else self.host


def lateness_of(case: Case) -> Lateness | None:
    """Return who is late and why, or None if nobody is, or processes take turns."""
    late = late_rank(case.ledger)
    ranks = (late,) if late is not None else late_machine(case)
    why = why_all_late(case.ledger, ranks) if ranks else None
    if why is None:
        return None
    host = next((s.host for s in case.run.last_starts if s.rank in ranks), "an unknown host")
    return Lateness(ranks, host, why.kind, why.seconds, why.positions)


def late_machine(case: Case) -> tuple[int, ...]:
    """Return the ranks of the machine that all others wait for, if its ranks take turns.

    Most of the waiting is for them, and each reaches the exchange later than any elsewhere.
    """
    there: dict[str, list[int]] = defaultdict(list)
    for start in case.run.last_starts:
        there[start.host].append(start.rank)
    waited, means = case.ledger.waited_for, case.ledger.by_rank
    total = sum(waited.values())
    if total <= 0 or len(there) < 2 or not all(r in means for rs in there.values() for r in rs):
        return ()
    work = {rank: sum(means[rank][part] for part in BEFORE_EXCHANGE) for rank in means}
    for ranks in there.values():
        elsewhere = [rank for others in there.values() for rank in others if rank not in ranks]
        mostly = sum(waited.get(rank, 0.0) for rank in ranks) >= ONE_RANK_IS_LATE * total
        slower = min(work[rank] for rank in ranks) > max(work[rank] for rank in elsewhere)
        if len(ranks) > 1 and mostly and slower:
            return tuple(sorted(ranks))
    return ()
