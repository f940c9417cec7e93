"""One process, or one machine, holds the others up."""

from dataclasses import dataclass

from unisono.diagnose.answers.step_time import lateness
from unisono.diagnose.case import Case
from unisono.diagnose.lateness import Lateness, lateness_of
from unisono.diagnose.report import Finding
from unisono.diagnose.words import percent
from unisono.units import duration

WHY = {
    "input": "its data came late",
    "tokens": "its share of every update is larger",
    "compute": "it computes more slowly",
    "recording": "it writes down and shows what happens",
}
WHY_ALL = {
    "input": "their data came late",
    "tokens": "their share of every update is larger",
    "compute": "they compute more slowly",
    "recording": "they write down and show what happens",
}
ADVICE = {
    "input": "Look at the disk its corpus is on and at what else runs on its machine; put the "
    "corpus on a local disk.",
    "tokens": "Nothing is wrong with its machine. Let every process have as many micro-batches "
    "as the others, of about the same size (`batching.tokens_per_micro_batch`).",
    "compute": "Look at what else runs on its machine, at its clock and its heat, and at its "
    "container's limits.",
    "recording": "Put the run directory on a faster disk.",
}


@dataclass(frozen=True)
class Straggler:
    """The processes waited for the same late one, or for those of the same machine."""

    share: float = 0.10
    fewest: int = 20

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        share, late = case.bottleneck.shares.straggler, lateness_of(case)
        if share <= self.share or len(case.ledger.rows) < self.fewest or late is None:
            return ()
        return (
            Finding(
                id="straggler",
                severity="warning",
                summary=f"The processes spent {percent(share)} of their time waiting for "
                f"{late.who.words}: {(WHY_ALL if late.who.host else WHY)[late.kind]}.",
                evidence=tuple(_evidence(case, late)),
                advice=ADVICE[late.kind],
                about=late.who.name,
            ),
        )


def _evidence(case: Case, late: Lateness) -> list[str]:
    lines = lateness(case)
    waited = case.ledger.waited_for
    total = sum(waited.values())
    if total > 0:
        for_them = sum(waited.get(rank, 0.0) for rank in late.who.ranks)
        why = "they waited least in the exchange, so they came last, in turns"
        if not late.who.host:
            why = "it waited least in the exchange, so it came last"
        lines.append(
            f"of all waiting, {percent(for_them / total)} was for {late.who.words}: {why}"
        )
    if late.kind == "tokens":
        lines.append(
            f"it computes {late.positions:.2f} times as many positions as the others, and "
            f"{duration(late.seconds)} longer"
        )
    return lines + _machine(case, late)


def _machine(case: Case, late: Lateness) -> list[str]:
    load = next((load for load in case.loads if load.host == late.host), None)
    if load is None or late.kind == "tokens":
        return []
    lines = []
    if load.foreign >= 0.2:
        lines.append(
            f"other programs on {load.host} used {load.foreign:.1f} of its {load.cores} cores"
        )
    if load.held_back >= 0.02:
        lines.append(f"a CPU quota held it back for {load.held_back:.2f} s in every second")
    if load.steal >= 0.02:
        lines.append(f"other guests of its host took {percent(load.steal)} of its processors")
    return lines
