"""From what the probes found to what a run will take: the physics, fed with measurements."""

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
from unisono.physics.notes import notes_of
from unisono.physics.notes_of_run import notes_of_run
from unisono.physics.rounds import (
    Round,
    best_bucket,
    cluster_of,
    middle_of,
    rounds_of,
    step_in,
)
from unisono.physics.step import Work
from unisono.physics.way import AUTO, Way, way_of

# As `sync.strategy` calls them:
NOT_OVERLAPPED, RARE, NARROW = "all_reduce", "diloco", "powersgd"
WORTH_A_NOTE = 0.03
FREE_TOLL = 2.5e-9  # seconds of a processor for each byte that it sends over a fast network
WORTH_A_STEP = 0.01  # what twice as many local steps must gain at least


@dataclass(frozen=True)
class Forecast:
    """What to expect: the way that is configured, all others, and one machine alone."""

    measured: Measured
    work: Work
    link: Link
    ways: tuple[Way, ...]
    alone: Way
    chosen: Way
    advised: Way
    notes: tuple[str, ...]

    @property
    def stop(self) -> str:
        """Return why not to train like this, or ""."""
        return self.chosen.stop


def forecast(measured: Measured, price: float = 0.0) -> Forecast:
    """Return what the run will take; `price` is that of a machine's hour."""
    rounds = rounds_of(measured)
    work = middle_of(rounds).work
    link = Link(median(one.link.bytes_per_second for one in rounds), rounds[0].link.latency)
    # An exchange has to be over when the next begins, also when an update was a short one.
    quickest = min((one.work for one in rounds), key=lambda work: work.seconds)
    cluster = cluster_of(measured, link)
    alone = _fastest_alone(measured, rounds, price)
    ways = [
        way_of(measured, rounds, exchange, price, alone)
        for exchange in _exchanges(measured, cluster, quickest)
    ]
    ways[-1] = _rarer(measured, rounds, cluster, ways, alone, price)
    chosen = next((way for way in ways if _is_configured(way, measured.job)), ways[0])
    if measured.job.strategy == AUTO:
        chosen = _least_drastic(ways, rounds)
    return Forecast(
        measured=measured,
        work=work,
        link=link,
        ways=tuple(ways),
        alone=alone,
        chosen=chosen,
        advised=_advised(ways, rounds, alone),
        notes=(
            *notes_of(measured),
            *notes_of_run(measured, chosen),
            *_about_buckets(measured, rounds, chosen),
        ),
    )


def _fastest_alone(measured: Measured, rounds: Sequence[Round], price: float) -> Way:
    """Return the machine that is the fastest by itself: the others may be of another make."""
    ways = []
    for number in range(measured.machines):
        cluster = cluster_of(measured, rounds[0].link, number)
        exchange = exact_exchange(measured.job.parameters, cluster)
        ways.append(way_of(measured, rounds, exchange, price, machine=number))
    return min(ways, key=lambda way: way.update_seconds)


def _exchanges(measured: Measured, cluster: Cluster, work: Work) -> list[Exchange]:
    job = measured.job
    exact, *others = choices(job.parameters, cluster, work)
    if job.strategy == NOT_OVERLAPPED:
        exact = replace(exact, name=NOT_OVERLAPPED, overlaps=False)
    if job.strategy == NARROW and cluster.nodes > 1:
        others.insert(-1, narrow_exchange(job.narrow_numbers, cluster))
    if job.strategy == RARE and cluster.nodes > 1:
        asked = local_exchange(job.parameters, cluster, job.local_steps, job.bits)
        others += [asked] if asked not in others else []
    return [exact, *others]


def _about_buckets(measured: Measured, rounds: Sequence[Round], chosen: Way) -> list[str]:
    """Return that other buckets would do better, unless somebody wants these."""
    if measured.job.bucket_mb or measured.job.strategy == AUTO or chosen.machines == 1:
        return []
    better = best_bucket(measured, rounds, chosen.exchange)
    steps = [step_in(measured, one, chosen.exchange, better) for one in rounds]
    gain = 1 - median(step.seconds for step in steps) / chosen.seconds.middle
    if gain < WORTH_A_NOTE:
        return []
    return [f"with `sync.bucket_mb = {better:g}` a step would be {gain:.0%} shorter"]


def _is_configured(way: Way, job: Job) -> bool:
    exchange = way.exchange
    if exchange.strategy == "compressed":
        return job.strategy == "compressed" and exchange.bits == job.bits
    if exchange.behind:
        wanted = job.local_steps, job.bits
        return job.strategy == RARE and wanted == (exchange.every, exchange.bits)
    return exchange.strategy == job.strategy


def _advised(ways: Sequence[Way], rounds: Sequence[Round], alone: Way) -> Way:
    """Return the best way on all machines, or one machine if that is faster."""
    best = _least_drastic(ways, rounds)
    return best if best.speedup > alone.speedup or best.machines == 1 else alone


def _rarer(
    measured: Measured,
    rounds: Sequence[Round],
    cluster: Cluster,
    ways: Sequence[Way],
    alone: Way,
    price: float,
) -> Way:
    """Return the rarest of the ways, rarer still until packing costs little, if that helps.

    Not if it is what somebody asked for.
    """
    way, job = ways[-1], measured.job
    if job.strategy == RARE or not way.exchange.behind:
        return way
    while _losses([*ways, way], rounds)[-1] >= HIDDEN:
        every, bits = 2 * way.exchange.every, way.exchange.bits
        if every > MOST_LOCAL_STEPS:
            break
        twice = local_exchange(job.parameters, cluster, every, bits)
        rarer = way_of(measured, rounds, twice, price, alone)
        if rarer.step.seconds > (1 - WORTH_A_STEP) * way.step.seconds:
            break
        way = rarer
    return way


def _losses(ways: Sequence[Way], rounds: Sequence[Round]) -> list[float]:
    """Return the share of the time that each way loses to the network and to packing.

    Compared with an exact exchange over a network without a limit, or with the fastest way.
    """
    one = middle_of(rounds)
    # Over a slow network a byte takes more of the processor than it would over a fast one.
    free = one.work.seconds + min(one.toll, FREE_TOLL) * ways[0].exchange.card_bytes
    ideal = min(free, *(way.step.seconds for way in ways))
    return [1 - ideal / way.step.seconds if way.step.seconds > 0 else 0.0 for way in ways]


def _least_drastic(ways: Sequence[Way], rounds: Sequence[Round]) -> Way:
    options = [
        Option(way.update_seconds, lost, way.exchange.behind)
        for way, lost in zip(ways, _losses(ways, rounds), strict=True)
    ]
    return ways[least_drastic(options)]
