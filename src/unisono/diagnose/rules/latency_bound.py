"""The exchange waits for messages to arrive, not for bytes to pass."""

import math
from dataclasses import dataclass
from statistics import fmean

from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.diagnose.case import Case
from unisono.diagnose.exchanged import expected_bytes
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count, percent
from unisono.units import duration

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
    if any(start.strategy == "all_reduce" for start in case.run.last_starts):
        return 1
    told = [start.bucket_mb for start in case.run.last_starts if start.bucket_mb]
    size = max((*told, 0.0)) or case.setting("sync", "bucket_mb", 0.0) or USUAL_BUCKET_MB
    return max(1, math.ceil(4 * case.parameters / (size * MEGABYTE)))


def _rounds(case: Case) -> float:
    """Return how often an update waits for the way there and back."""
    hops = 2 * (case.size - 1) * math.ceil(_buckets(case) / AT_ONCE)
    growing = math.log2(max(1.0, expected_bytes(case) / FIRST_WINDOW))
    return hops / 2 + growing
