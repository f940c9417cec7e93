"""Why one process comes later than the others: its input, its share, or its machine."""

from collections.abc import Collection
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from unisono.diagnose.late import Late
from unisono.diagnose.ledger import Ledger

Kind = Literal["input", "tokens", "compute", "recording"]

INPUT, COMPUTE = ("data", "copy"), ("forward", "backward", "optimizer", "other")
# Of the arithmetic that a late process does longer: what more positions explain of it.
EXPLAINED = 0.5


@dataclass(frozen=True)
class Why:
    """Why a rank is late, and the seconds an update that it takes longer.

    `positions` is how many times as many positions it computes as the others do.
    """

    kind: Kind
    seconds: float
    positions: float


def why_late(ledger: Ledger, late: Late) -> Why | None:
    """Return what is done longer by who is late, on average; None without records of all."""
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
    return Why(kind, max(0.0, seconds), positions)


def _positions(ledger: Ledger, late: Collection[int], others: Collection[int]) -> float:
    """Return how many times the others' positions the late ranks compute; 1 if not known."""
    mean = ledger.positions
    theirs, usual = ([mean[r] for r in ranks if mean.get(r)] for ranks in (late, others))
    return fmean(theirs) / fmean(usual) if theirs and usual else 1.0
