"""All ways to run a job on some machines: which is configured, and which is to be taken."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from unisono.physics.bill import HIDDEN, Option, least_drastic
from unisono.physics.cluster import (
    MOST_LOCAL_STEPS,
    Cluster,
    choices,
    exact_exchange,
    local_exchange,
    narrow_exchange,
)
from unisono.physics.exchange import Exchange
from unisono.physics.link import Link
from unisono.physics.measured import Job, Measured
from unisono.physics.rounds import FREE_TOLL, Round, cluster_of, middle_of, work_on
from unisono.physics.step import Work
from unisono.physics.way import AUTO, Way, way_of

# As `sync.strategy` calls them:
NOT_OVERLAPPED, RARE, NARROW = "all_reduce", "diloco", "powersgd"
WORTH_A_STEP = 0.01  # what twice as many local steps must gain at least


@dataclass(frozen=True)
class Ways:
    """The ways on some machines, the one that is configured, and the least drastic good one."""

    all: tuple[Way, ...]
    chosen: Way
    best: Way


def each_alone(measured: Measured, rounds: Sequence[Round], price: float) -> dict[int, Way]:
    """Return each machine by itself, the fastest first: they may be of different makes."""
    ways = {}
    for number in range(measured.machines):
        cluster = cluster_of(measured, rounds[0].link, [number])
        exchange = exact_exchange(measured.job.parameters, cluster)
        ways[number] = way_of(measured, rounds, exchange, price, on=[number])
    return dict(sorted(ways.items(), key=lambda item: item[1].update_seconds))


def ways_on(
    measured: Measured,
    rounds: Sequence[Round],
    price: float,
    alone: Way,
    on: Sequence[int] = (),
) -> Ways:
    """Return the ways on all machines, or on those with these numbers."""
    link = middle_link(rounds)
    cluster = cluster_of(measured, link, on)
    works = [work_on(measured, one, on) for one in rounds]
    # An exchange has to be over when the next begins, also when an update was a short one.
    quickest = min(works, key=lambda work: work.seconds)
    ways = [
        way_of(measured, rounds, exchange, price, alone, on)
        for exchange in _exchanges(measured, cluster, quickest)
    ]
    losses = _Losses(rounds, sorted(works, key=lambda work: work.seconds)[len(works) // 2])
    ways[-1] = _rarer(measured, rounds, losses, ways, alone, price, on)
    usual = [way for way in ways if not way.exchange.narrow or measured.job.strategy == NARROW]
    best = losses.least_drastic(usual)
    chosen = next((way for way in ways if _is_configured(way, measured.job)), ways[0])
    return Ways(tuple(ways), best if measured.job.strategy == AUTO else chosen, best)


def middle_link(rounds: Sequence[Round]) -> Link:
    """Return the link as it usually was."""
    return Link(median(one.link.bytes_per_second for one in rounds), rounds[0].link.latency)


def _exchanges(measured: Measured, cluster: Cluster, work: Work) -> list[Exchange]:
    job = measured.job
    exact, *others = choices(job.parameters, cluster, work)
    if job.strategy == NOT_OVERLAPPED:
        exact = replace(exact, name=NOT_OVERLAPPED, overlaps=False)
    if cluster.nodes > 1:
        others.insert(-1, narrow_exchange(job.narrow_numbers, cluster))
    if job.strategy == RARE and cluster.nodes > 1:
        asked = local_exchange(job.parameters, cluster, job.local_steps, job.bits)
        others += [asked] if asked not in others else []
    return [exact, *others]


def _is_configured(way: Way, job: Job) -> bool:
    exchange = way.exchange
    if exchange.strategy == "compressed":
        return job.strategy == "compressed" and exchange.bits == job.bits
    if exchange.behind:
        wanted = job.local_steps, job.bits
        return job.strategy == RARE and wanted == (exchange.every, exchange.bits)
    return exchange.strategy == job.strategy


@dataclass(frozen=True)
class _Losses:
    """What ways lose to the network and to packing, of updates that are `usual` work."""

    rounds: Sequence[Round]
    usual: Work

    def of(self, ways: Sequence[Way]) -> list[float]:
        """Return the share of the time that each loses.

        Compared with an exact exchange over a network without a limit, or the fastest way.
        """
        # Over a slow network a byte takes more of the processor than it would over a fast one.
        toll = min(middle_of(self.rounds).toll, FREE_TOLL)
        free = self.usual.seconds + toll * ways[0].exchange.card_bytes
        ideal = min(free, *(way.step.seconds for way in ways))
        return [1 - ideal / way.step.seconds if way.step.seconds > 0 else 0.0 for way in ways]

    def least_drastic(self, ways: Sequence[Way]) -> Way:
        """Return the one to take."""
        options = [
            Option(way.update_seconds, lost, way.exchange.behind)
            for way, lost in zip(ways, self.of(ways), strict=True)
        ]
        return ways[least_drastic(options)]


def _rarer(
    measured: Measured,
    rounds: Sequence[Round],
    losses: _Losses,
    ways: Sequence[Way],
    alone: Way,
    price: float,
    on: Sequence[int],
) -> Way:
    """Return the rarest of the ways, rarer still until packing costs little, if that helps.

    Not if it is what somebody asked for.
    """
    way, job = ways[-1], measured.job
    if job.strategy == RARE or not way.exchange.behind:
        return way
    cluster = cluster_of(measured, middle_link(rounds), on)
    while losses.of([*ways, way])[-1] >= HIDDEN:
        every, bits = 2 * way.exchange.every, way.exchange.bits
        if every > MOST_LOCAL_STEPS:
            break
        twice = local_exchange(job.parameters, cluster, every, bits)
        rarer = way_of(measured, rounds, twice, price, alone, on)
        if rarer.step.seconds > (1 - WORTH_A_STEP) * way.step.seconds:
            break
        way = rarer
    return way
