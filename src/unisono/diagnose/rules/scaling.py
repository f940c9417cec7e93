"""A second machine that does not pay.

The exchange waits for messages to arrive, not for bytes to pass.
"""

import math
from dataclasses import dataclass
from statistics import fmean

from unisono.cost_model.exchange import Exchange
from unisono.cost_model.run_cost import why_not
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.cost_model.strategies import overlaps
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.counterfactual import (
    Alone,
    Better,
    better_exchange,
    one_machine,
)
from unisono.diagnose.evidence.expected_bytes import expected_bytes
from unisono.diagnose.report import Finding
from unisono.diagnose.wording import count, listing, percent
from unisono.units import duration


@dataclass(frozen=True)
class MoreMachines:
    """All machines together are slower than one of them, or hardly faster.

    What one would do is arithmetic: its own seconds for its share, times the shares there are.
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
        return (
            Finding(
                id="more_machines",
                severity="warning",
                summary=f"{_verdict(alone)}. An update takes {duration(alone.together)}; "
                f"{alone.host} alone would need about {duration(alone.seconds)} for the same "
                "tokens.",
                evidence=tuple(_evidence(case, alone)),
                advice=self._advice(alone, better),
            ),
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
            f"Otherwise: {stay[0].lower()}{stay[1:]}."
        )


def _settings(way: Exchange) -> str:
    settings = [f'`sync.strategy = "{way.strategy}"`']
    settings += [f"`sync.bits = {way.bits}`"] if way.bits < 32 else []
    settings += [f"`sync.local_steps = {way.every}`"] if way.local else []
    return listing(settings)


def _verdict(alone: Alone) -> str:
    slower = why_not(alone.machines, alone.speedup, waiting=0.0)
    return slower or (
        f"{alone.machines} machines are hardly faster than one: {alone.speedup:.2f} times its "
        "speed"
    )


def _evidence(case: Case, alone: Alone) -> list[str]:
    shares = case.bottleneck.shares
    one = alone.processes == 1
    its = "its process computes" if one else f"its {alone.processes} processes compute"
    return [
        f"{alone.host}: {its} {percent(alone.share)} of an update in "
        f"{duration(alone.share_seconds)}",
        f"{percent(shares.network)} of the time went into the exchange, "
        f"{percent(shares.straggler)} into waiting for a late process",
    ]


# What TCP dares to send at once after a pause; with every answer it is twice as much.
FIRST_WINDOW = 10 * 1448
# gloo sends so many buckets at the same time.
AT_ONCE = 2
MEGABYTE = 2**20


@dataclass(frozen=True)
class LatencyBound:
    """Messages that wait for each other's answers make up most of the exchange.

    `share` is what the exchange takes of the time, `explained` what waiting for answers makes
    up of it.
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
        return (
            Finding(
                id="latency_bound",
                severity="warning",
                summary=f"The exchange waits for messages to arrive: there and back takes "
                f"{there_and_back}, about {rounds:.0f} times in an update. A link of more "
                "Mbit/s would not help.",
                evidence=(
                    f"{count(buckets, 'message')} of `sync.bucket_mb`, of which gloo sends "
                    f"{AT_ONCE} at once, and TCP begins slowly after every pause: about "
                    f"{duration(min(waiting, exchange))} of the {duration(exchange)} that an "
                    f"exchange takes ({percent(min(1.0, waiting / exchange))})",
                ),
                advice="Send fewer and larger messages (`sync.bucket_mb`), exchange less often "
                "(`batching.tokens_per_update`), or put the machines closer together.",
            ),
        )


def _sends_every_update(case: Case) -> bool:
    """Return whether gloo sends every update in buckets, which is what is counted here."""
    start = case.run.last_starts[0] if case.run.last_starts else None
    return start is not None and start.device == "cpu" and start.every == 1


def _round_trip(case: Case) -> float:
    """Return the seconds there and back on the longest way between the machines."""
    ways = [node.main_way for node in case.nodes]
    return max((way.rtt for way in ways if way is not None), default=0.0)


def _buckets(case: Case) -> int:
    if any(not overlaps(start.strategy) for start in case.run.last_starts):
        return 1
    told = [start.bucket_mb for start in case.run.last_starts if start.bucket_mb]
    size = max((*told, 0.0)) or case.setting("sync", "bucket_mb", 0.0) or USUAL_BUCKET_MB
    return max(1, math.ceil(4 * case.parameters / (size * MEGABYTE)))


def _rounds(case: Case) -> float:
    """Return how often an update waits for the way there and back."""
    hops = 2 * (case.size - 1) * math.ceil(_buckets(case) / AT_ONCE)
    growing = math.log2(max(1.0, expected_bytes(case) / FIRST_WINDOW))
    return hops / 2 + growing
