"""Machines that do not pay off, and exchanges bound by latency rather than bandwidth."""

import math
from dataclasses import dataclass
from statistics import fmean

from unisono.cost_model.exchange import Exchange
from unisono.cost_model.run_cost import why_not
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.cost_model.strategies import overlaps
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.counterfactual import Alone, Better, better_exchange, one_machine
from unisono.diagnose.evidence.expected_bytes import expected_bytes
from unisono.diagnose.report import Finding, finding
from unisono.diagnose.wording import count, listing, percent
from unisono.units import duration


@dataclass(frozen=True)
class MoreMachines:
    """All machines together are slower than one of them, or hardly faster.

    What one machine would do is arithmetic: its seconds for its share, divided by that share.
    """

    least: float = 1.2
    fewest: int = 20

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        if len(case.run.hosts) < 2 or len(set(case.sizes)) != 1:
            return ()
        alone = one_machine(case) if len(case.ledger.usual) >= self.fewest else None
        if alone is None or alone.speedup >= self.least:
            return ()
        better = better_exchange(case, alone)
        return finding(
            "more_machines",
            f"{_verdict(alone)}. An update takes {duration(alone.together)}; {alone.host} "
            f"alone would need about {duration(alone.seconds)} for the same tokens.",
            *_evidence(case, alone),
            advice=self._advice(alone, better),
        )

    def _advice(self, alone: Alone, better: Better | None) -> str:
        price = f"at 1/{alone.machines} of the price"
        stay = f"Train on {alone.host} alone, {price}"
        if better is None or alone.seconds / better.seconds < self.least:
            return f"{stay}, or make updates larger (`batching.tokens_per_update`)."
        times = alone.seconds / better.seconds
        return (
            f"Set {_settings(better.exchange)}: by arithmetic an update would take at best "
            f"{duration(better.seconds)}, {times:.1f} times as fast as one machine. "
            f"Otherwise {stay[0].lower()}{stay[1:]}."
        )


def _settings(way: Exchange) -> str:
    settings = [f'`sync.strategy = "{way.strategy}"`']
    settings += [f"`sync.bits = {way.bits}`"] if way.bits < 32 else []
    settings += [f"`sync.local_steps = {way.every}`"] if way.local else []
    return listing(settings)


def _verdict(alone: Alone) -> str:
    slower = why_not(alone.machines, alone.speedup, waiting=0.0)
    return slower or (
        f"{alone.machines} machines are hardly faster than one: {alone.speedup:.2f} times as "
        "fast"
    )


def _evidence(case: Case, alone: Alone) -> list[str]:
    shares = case.bottleneck.shares
    one = alone.processes == 1
    its = "its process computes" if one else f"its {alone.processes} processes compute"
    return [
        f"{alone.host}: {its} {percent(alone.share)} of an update in "
        f"{duration(alone.share_seconds)}",
        f"{percent(shares.network)} of the time went into the exchange, "
        f"{percent(shares.straggler)} into waiting for a straggler",
    ]


# TCP sends this much at once after a pause, and doubles it with every acknowledgement.
FIRST_WINDOW = 10 * 1448
# The buckets that gloo sends at the same time.
AT_ONCE = 2
MIB = 2**20


@dataclass(frozen=True)
class LatencyBound:
    """Round trips make up most of the exchange.

    `share` is the share of the time that the exchange takes, `explained` the share of the
    exchange that round trips explain.
    """

    share: float = 0.10
    explained: float = 0.5

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        way_there_and_back = _round_trip(case) if _sends_every_update(case) else 0.0
        if case.bottleneck.shares.network < self.share or not way_there_and_back:
            return ()
        buckets, rounds = _buckets(case), _rounds(case)
        waiting = rounds * way_there_and_back
        exchange = fmean(row.wire + row.hidden for row in case.ledger.usual)
        if waiting < self.explained * exchange:
            return ()
        there_and_back = duration(way_there_and_back)
        return finding(
            "latency_bound",
            f"Latency bounds the exchange: a round trip takes {there_and_back}, and an update "
            f"needs about {rounds:.0f} of them. A link of more Mbit/s would not help.",
            f"{count(buckets, 'message')} of `sync.bucket_mb`, of which gloo sends "
            f"{AT_ONCE} at once, and TCP's slow start after every pause take about "
            f"{duration(min(waiting, exchange))} of the {duration(exchange)} that an "
            f"exchange takes ({percent(min(1.0, waiting / exchange))})",
            advice="Send fewer and larger messages (`sync.bucket_mb`), exchange less often "
            "(`batching.tokens_per_update`), or move the machines closer together.",
        )


def _sends_every_update(case: Case) -> bool:
    """Return whether gloo sends every update in buckets, as the estimate assumes."""
    start = case.run.last_starts[0] if case.run.last_starts else None
    return start is not None and start.device == "cpu" and start.every == 1


def _round_trip(case: Case) -> float:
    """Return the seconds of the longest round trip between the machines."""
    ways = [node.main_way for node in case.nodes]
    return max((way.rtt for way in ways if way is not None), default=0.0)


def _buckets(case: Case) -> int:
    if any(not overlaps(start.strategy) for start in case.run.last_starts):
        return 1
    told = [start.bucket_mb for start in case.run.last_starts if start.bucket_mb]
    size = max((*told, 0.0)) or case.setting("sync", "bucket_mb", 0.0) or USUAL_BUCKET_MB
    return max(1, math.ceil(4 * case.trained / (size * MIB)))


def _rounds(case: Case) -> float:
    """Return how many round trips an update waits for."""
    hops = 2 * (case.size - 1) * math.ceil(_buckets(case) / AT_ONCE)
    growing = math.log2(max(1.0, expected_bytes(case) / FIRST_WINDOW))
    return hops / 2 + growing
