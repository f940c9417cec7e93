"""From what the probes found to what a run will take: the physics, fed with measurements."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from unisono.physics.bill import HIDDEN, SECONDS_PER_HOUR, least_drastic, why_not
from unisono.physics.cluster import (
    Cluster,
    choices,
    exact_exchange,
    local_exchange,
    step_on,
)
from unisono.physics.exchange import Exchange, hierarchical
from unisono.physics.link import Link
from unisono.physics.measured import Job, Measured, Process, computing_of
from unisono.physics.notes import notes_of
from unisono.physics.pipeline import USUAL_BUCKET_MB
from unisono.physics.ring import BYTES_PER_FLOAT32, ring_bytes
from unisono.physics.step import Step, Work

# What the physics leaves out, as a share of a step, besides what the rounds differ by.
LEFT_OUT = 0.04
NINETY = 1.645  # standard deviations that hold 90 % of a normal distribution
SIGMA = 1.4826  # of a normal distribution, in median deviations
AUTO, NOT_OVERLAPPED, RARE = "auto", "all_reduce", "diloco"  # as `sync.strategy` calls them
BUCKETS_MB = (USUAL_BUCKET_MB, 16.0, 8.0, 4.0, 2.0, 1.0)
AS_GOOD = 0.005  # of a step: the larger of two buckets has fewer messages to go wrong
WORTH_A_NOTE = 0.03
WORTH_A_STEP = 0.01  # what twice as many local steps must gain at least
# Weights and both moments of the optimizer: what processes that went apart exchange in float32
# before anybody looks at them.
MEETING = 3


@dataclass(frozen=True)
class Interval:
    """A number and where it lies nine times out of ten."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Way:
    """One way to run the job: on so many machines, with this exchange."""

    machines: int
    exchange: Exchange
    step: Step
    seconds: Interval
    hours: float
    money: float
    speedup: float
    bucket_mb: float = USUAL_BUCKET_MB
    stop: str = ""


@dataclass(frozen=True)
class Round:
    """One turn of the probes: the work of the slowest process, and the link as it was."""

    work: Work
    link: Link
    toll: float  # seconds of the processor for each byte on the wire, if it also computes


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
    work = _middle([one.work for one in rounds])
    link = Link(median(one.link.bytes_per_second for one in rounds), rounds[0].link.latency)
    cluster = Cluster(measured.machines, measured.workers, link)
    size = measured.job.parameters
    alone = _way(measured, rounds, 1, exact_exchange(size, cluster.alone()), price)
    ways = [
        _way(measured, rounds, cluster.nodes, exchange, price, alone)
        for exchange in _exchanges(measured, cluster, work)
    ]
    ways[-1] = _rarer(measured, rounds, cluster, ways, alone, price)
    chosen = next((way for way in ways if _is_configured(way, measured.job)), ways[0])
    if measured.job.strategy == AUTO:
        chosen = _least_drastic(ways)
    return Forecast(
        measured=measured,
        work=work,
        link=link,
        ways=tuple(ways),
        alone=alone,
        chosen=chosen,
        advised=_advised(ways, alone),
        notes=(*notes_of(measured), *_about_buckets(measured, rounds, chosen)),
    )


def _exchanges(measured: Measured, cluster: Cluster, work: Work) -> list[Exchange]:
    job = measured.job
    exact, *others = choices(job.parameters, cluster, work)
    if job.strategy == NOT_OVERLAPPED:
        exact = replace(exact, name=NOT_OVERLAPPED, overlaps=False)
    if job.strategy == RARE and cluster.nodes > 1:
        asked = local_exchange(job.parameters, cluster, job.local_steps, job.bits)
        others += [asked] if asked not in others else []
    return [exact, *others]


def _bucket_for(
    measured: Measured, rounds: Sequence[Round], machines: int, exchange: Exchange
) -> float:
    """Return the size of buckets: as it is set, or with "auto" the best, or the usual."""
    if measured.job.bucket_mb or measured.job.strategy != AUTO:
        return measured.job.bucket_mb or USUAL_BUCKET_MB
    return best_bucket(measured, rounds, machines, exchange)


def best_bucket(
    measured: Measured, rounds: Sequence[Round], machines: int, exchange: Exchange
) -> float:
    """Return the largest bucket with which a step is about as short as with any other.

    The last one is what a step waits for, so it should be small; but each costs its latency.
    """
    one = sorted(rounds, key=lambda one: one.work.seconds)[len(rounds) // 2]
    times = {mb: _step(measured, one, machines, exchange, mb).seconds for mb in BUCKETS_MB}
    shortest = min(times.values())
    return max(mb for mb, seconds in times.items() if seconds <= (1 + AS_GOOD) * shortest)


def _about_buckets(measured: Measured, rounds: Sequence[Round], chosen: Way) -> list[str]:
    """Return that other buckets would do better, unless somebody wants these."""
    if measured.job.bucket_mb or measured.job.strategy == AUTO or chosen.machines == 1:
        return []
    better = best_bucket(measured, rounds, chosen.machines, chosen.exchange)
    steps = [_step(measured, one, chosen.machines, chosen.exchange, better) for one in rounds]
    gain = 1 - median(step.seconds for step in steps) / chosen.seconds.middle
    if gain < WORTH_A_NOTE:
        return []
    return [f"with `sync.bucket_mb = {better:g}` a step would be {gain:.0%} shorter"]


def rounds_of(measured: Measured) -> list[Round]:
    """Return the turns of the probes, of all processes together."""
    processes = measured.processes
    count = min(len(process.updates) for process in processes)
    return [_round(measured, processes, number) for number in range(count)]


def _round(measured: Measured, processes: Sequence[Process], number: int) -> Round:
    slowest = max((p.updates[number] for p in processes), key=computing_of)
    work = Work(
        slowest.forward,
        slowest.backward,
        slowest.optimizer,
        slowest.other,
        tail=measured.job.tail,
    )
    sums = [p.sums[number] for p in processes]
    ranks = len(processes)
    hops = max(1, 2 * (ranks - 1))
    # All begin together; whoever took longest also waited for somebody.
    seconds = max(1e-9, min(one.seconds for one in sums) - measured.latency)
    count = ring_bytes(sums[0].bytes // BYTES_PER_FLOAT32, ranks)
    link = Link(max(1.0, count / seconds), measured.latency / hops)
    busy = max(one.processor_seconds for one in sums) / max(1, count)
    computes = all(process.device == "cpu" for process in processes)
    return Round(work, link, busy if computes and ranks > 1 else 0.0)


def _way(
    measured: Measured,
    rounds: Sequence[Round],
    machines: int,
    exchange: Exchange,
    price: float,
    alone: Way | None = None,
) -> Way:
    """Return one way, compared with one machine `alone`."""
    bucket_mb = _bucket_for(measured, rounds, machines, exchange)
    steps = [_step(measured, one, machines, exchange, bucket_mb) for one in rounds]
    step = sorted(steps, key=lambda one: one.seconds)[len(steps) // 2]
    seconds = _run_seconds(measured, machines, step.seconds)
    if exchange.behind:
        seconds += _meeting_seconds(measured, rounds)
    hours = seconds / SECONDS_PER_HOUR
    speedup = alone.step.seconds / step.seconds if alone else 1.0
    return Way(
        machines=machines,
        exchange=exchange,
        step=step,
        seconds=_interval([one.seconds for one in steps]),
        hours=hours,
        money=hours * machines * price,
        speedup=speedup,
        bucket_mb=bucket_mb,
        stop=why_not(machines, speedup, step.waiting),
    )


def _step(
    measured: Measured, one: Round, machines: int, exchange: Exchange, bucket_mb: float
) -> Step:
    more = measured.machines / machines
    work = replace(
        one.work,
        forward=one.work.forward * more,
        backward=one.work.backward * more,
        tail=one.work.tail / more,
    )
    if exchange.card_bytes:
        work = _taxed(work, _toll(measured, one, exchange))
    cluster = Cluster(machines, measured.workers, one.link)
    if measured.machines == 1:
        cluster = replace(cluster, inside=one.link)  # it is what was measured
    return step_on(
        cluster,
        work,
        exchange,
        measured.job.parameters,
        bucket_mb=bucket_mb,
        gradients=measured.job.gradients,
    )


def _toll(measured: Measured, one: Round, exchange: Exchange) -> float:
    """Return the seconds an update takes of the processor for its exchange, if it computes."""
    if not one.toll:
        return 0.0
    parties = Cluster(measured.machines, measured.workers, one.link).parties
    packing = {packing.bits: packing for packing in measured.packings}.get(exchange.bits)
    # One is unpacked right away, to see what rounding dropped.
    each = packing.pack + (parties + 1) * packing.unpack if packing else 0.0
    each += measured.outer_seconds if exchange.behind else 0.0
    whole = one.toll * exchange.card_bytes + each * measured.job.parameters
    return whole / exchange.every + one.toll * exchange.inside_bytes


def _taxed(work: Work, seconds: float) -> Work:
    """Return work on a processor that also does the exchange, beside the backward pass."""
    longer = work.backward + seconds
    tail = (work.backward * work.tail + seconds) / longer if longer > 0 else 1.0
    return replace(work, backward=longer, tail=tail)


def _run_seconds(measured: Measured, machines: int, step: float) -> float:
    job = measured.job
    evaluations = job.evaluations * measured.evaluation_seconds * measured.machines / machines
    return job.updates * step + evaluations + job.checkpoints * measured.checkpoint_seconds


def _meeting_seconds(measured: Measured, rounds: Sequence[Round]) -> float:
    """Return how long a run waits in all until machines that went apart have the same."""
    job, link = measured.job, rounds[len(rounds) // 2].link
    each = link.seconds(MEETING * hierarchical(job.parameters, measured.machines))
    return (job.evaluations + job.checkpoints) * each


def _is_configured(way: Way, job: Job) -> bool:
    exchange = way.exchange
    if exchange.strategy == "compressed":
        return job.strategy == "compressed" and exchange.bits == job.bits
    if exchange.behind:
        wanted = job.local_steps, job.bits
        return job.strategy == RARE and wanted == (exchange.every, exchange.bits)
    return exchange.strategy == job.strategy


def _advised(ways: Sequence[Way], alone: Way) -> Way:
    """Return the best way on all machines, or one machine if that is faster."""
    best = _least_drastic(ways)
    return best if best.speedup > alone.speedup or best.machines == 1 else alone


def _rarer(
    measured: Measured,
    rounds: Sequence[Round],
    cluster: Cluster,
    ways: Sequence[Way],
    alone: Way,
    price: float,
) -> Way:
    """Return the rarest of the ways, made rarer until packing costs little, if that helps.

    Not if it is what somebody asked for.
    """
    way, job = ways[-1], measured.job
    while way.exchange.behind and job.strategy != RARE and _loss(way, ways[0]) >= HIDDEN:
        twice = local_exchange(
            job.parameters, cluster, 2 * way.exchange.every, way.exchange.bits
        )
        rarer = _way(measured, rounds, cluster.nodes, twice, price, alone)
        if rarer.step.seconds > (1 - WORTH_A_STEP) * way.step.seconds:
            break
        way = rarer
    return way


def _loss(way: Way, exact: Way) -> float:
    """Return the share of the time lost to the network and to packing.

    Compared with an exact exchange over a network without a limit.
    """
    seconds = way.step.seconds
    return 1 - exact.step.computing / seconds if seconds > 0 else 0.0


def _least_drastic(ways: Sequence[Way]) -> Way:
    losses = [_loss(way, ways[0]) for way in ways]
    return ways[least_drastic(losses, [way.speedup for way in ways])]


def _interval(values: Sequence[float]) -> Interval:
    middle = median(values)
    spread = SIGMA * median(abs(value - middle) for value in values)
    half = math.hypot(LEFT_OUT * middle, NINETY * spread * math.sqrt(1 + 1 / len(values)))
    return Interval(max(0.0, middle - half), middle, middle + half)


def _middle(works: Sequence[Work]) -> Work:
    """Return the work of the round in the middle."""
    return sorted(works, key=lambda work: work.seconds)[len(works) // 2]
