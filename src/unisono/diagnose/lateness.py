"""Why one process comes later than the others: its input, its share, or its machine."""

from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from unisono.diagnose.bottleneck import late_rank
from unisono.diagnose.case import Case

Kind = Literal["input", "tokens", "compute", "recording"]

INPUT, COMPUTE = ("data", "copy"), ("forward", "backward", "optimizer", "other")
# Of the arithmetic that a late process does longer: what more positions explain of it.
EXPLAINED = 0.5


@dataclass(frozen=True)
class Lateness:
    """Which rank is late, why, and the seconds an update that it takes longer.

    `positions` is how many times as many positions it computes as the others do.
    """

    rank: int
    host: str
    kind: Kind
    seconds: float
    positions: float


def lateness_of(case: Case) -> Lateness | None:
    """Return why the late rank is late, or None if none is, or they take turns."""
    late, means = late_rank(case.ledger), case.ledger.by_rank
    others = [rank for rank in means if rank != late and rank < case.size]
    if late is None or not others or late not in means:
        return None

    def excess(parts: tuple[str, ...]) -> float:
        usual = fmean(sum(means[rank][part] for part in parts) for rank in others)
        return sum(means[late][part] for part in parts) - usual

    causes: dict[Kind, float] = {
        "input": excess(INPUT),
        "compute": excess(COMPUTE),
        "recording": excess(("recording",)),
    }
    kind = max(causes, key=lambda name: causes[name])
    positions = _positions(case, late, others)
    usual = fmean(sum(means[rank][part] for part in COMPUTE) for rank in others)
    if kind == "compute" and (positions - 1) * usual >= EXPLAINED * causes[kind] > 0:
        kind = "tokens"
    seconds = causes["compute" if kind == "tokens" else kind]
    host = next((s.host for s in case.run.last_starts if s.rank == late), "an unknown host")
    return Lateness(late, host, kind, max(0.0, seconds), positions)


def _positions(case: Case, late: int, others: list[int]) -> float:
    """Return how many times the others' positions the late rank computes; 1 if not known."""
    mean = {
        rank: fmean(step.own_positions for step in case.run.ranks[rank])
        for rank in (late, *others)
        if case.run.ranks.get(rank)
    }
    known = [mean[rank] for rank in others if mean.get(rank)]
    return mean[late] / fmean(known) if known and mean.get(late) else 1.0
