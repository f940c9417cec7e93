"""From what the probes found to what a run will take: the physics, fed with measurements."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from unisono.physics.bill import SECONDS_PER_HOUR, least_drastic, why_not
from unisono.physics.cluster import Cluster, choices, exact_exchange, step_on
from unisono.physics.exchange import Exchange
from unisono.physics.link import Link
from unisono.physics.measured import Job, Measured, Process, Update
from unisono.physics.ring import BYTES_PER_FLOAT32, ring_bytes
from unisono.physics.step import Step, Work

# What the physics leaves out, as a share of a step, besides what the rounds differ by.
LEFT_OUT = 0.04
NINETY = 1.645  # standard deviations that hold 90 % of a normal distribution
SIGMA = 1.4826  # of a normal distribution, in median deviations
FADED = 0.8  # a stream whose rate ends below this share of its beginning has used up credit
AUTO, NOT_OVERLAPPED = "auto", "all_reduce"  # as `sync.strategy` calls them
FULL = 0.9  # of the memory
UNEVEN = 0.7  # a direction this much slower than the other is worth telling
SLOWER = 1.15  # a machine that takes this much longer than the fastest


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
    advised = _advised(ways, alone)
    chosen = next((way for way in ways if _is_configured(way, measured.job)), ways[0])
    if measured.job.strategy == AUTO:
        # DiLoCo changes the course of training: it is for those who ask for it.
        chosen = _least_drastic([way for way in ways if not way.exchange.behind])
    return Forecast(
        measured=measured,
        work=work,
        link=link,
        ways=tuple(ways),
        alone=alone,
        chosen=chosen,
        advised=advised,
        notes=tuple(_notes(measured)),
    )


def _exchanges(measured: Measured, cluster: Cluster, work: Work) -> list[Exchange]:
    exact, *others = choices(measured.job.parameters, cluster, work)
    if measured.job.strategy == NOT_OVERLAPPED:
        exact = replace(exact, name=NOT_OVERLAPPED, overlaps=False)
    return [exact, *others]


def rounds_of(measured: Measured) -> list[Round]:
    """Return the turns of the probes, of all processes together."""
    processes = measured.processes
    count = min(len(process.updates) for process in processes)
    return [_round(measured, processes, number) for number in range(count)]


def _round(measured: Measured, processes: Sequence[Process], number: int) -> Round:
    slowest = max((p.updates[number] for p in processes), key=_computing)
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


def _computing(update: Update) -> float:
    return update.forward + update.backward + update.optimizer


def _way(
    measured: Measured,
    rounds: Sequence[Round],
    machines: int,
    exchange: Exchange,
    price: float,
    alone: Way | None = None,
) -> Way:
    """Return one way, compared with one machine `alone`."""
    steps = [_step(measured, one, machines, exchange) for one in rounds]
    step = sorted(steps, key=lambda one: one.seconds)[len(steps) // 2]
    hours = _run_seconds(measured, machines, step.seconds) / SECONDS_PER_HOUR
    speedup = alone.step.seconds / step.seconds if alone else 1.0
    return Way(
        machines=machines,
        exchange=exchange,
        step=step,
        seconds=_interval([one.seconds for one in steps]),
        hours=hours,
        money=hours * machines * price,
        speedup=speedup,
        stop=why_not(machines, speedup, step.waiting),
    )


def _step(measured: Measured, one: Round, machines: int, exchange: Exchange) -> Step:
    more = measured.machines / machines
    work = replace(
        one.work,
        forward=one.work.forward * more,
        backward=one.work.backward * more,
        tail=one.work.tail / more,
    )
    if exchange.card_bytes:
        work = _taxed(work, _toll(measured, one, machines, exchange) / exchange.every)
    cluster = Cluster(machines, measured.workers, one.link)
    if measured.machines == 1:
        cluster = replace(cluster, inside=one.link)  # it is what was measured
    return step_on(
        cluster, work, exchange, measured.job.parameters, bucket_mb=measured.job.bucket_mb
    )


def _toll(measured: Measured, one: Round, machines: int, exchange: Exchange) -> float:
    """Return the seconds an exchange takes of the processor, if it is the one that computes."""
    if not one.toll:
        return 0.0
    ranks = machines * measured.workers
    packing = {packing.bits: packing for packing in measured.packings}.get(exchange.bits)
    # One is unpacked right away, to see what rounding dropped.
    each = packing.pack + (ranks + 1) * packing.unpack if packing else 0.0
    return one.toll * exchange.card_bytes + each * measured.job.parameters


def _taxed(work: Work, seconds: float) -> Work:
    """Return work on a processor that also does the exchange, beside the backward pass."""
    longer = work.backward + seconds
    tail = (work.backward * work.tail + seconds) / longer if longer > 0 else 1.0
    return replace(work, backward=longer, tail=tail)


def _run_seconds(measured: Measured, machines: int, step: float) -> float:
    job = measured.job
    evaluations = job.evaluations * measured.evaluation_seconds * measured.machines / machines
    return job.updates * step + evaluations + job.checkpoints * measured.checkpoint_seconds


def _is_configured(way: Way, job: Job) -> bool:
    exchange = way.exchange
    if exchange.strategy == "compressed":
        return job.strategy == "compressed" and exchange.bits == job.bits
    return exchange.strategy == job.strategy


def _advised(ways: Sequence[Way], alone: Way) -> Way:
    """Return the best way on all machines, or one machine if that is faster."""
    best = _least_drastic(ways)
    return best if best.speedup > alone.speedup or best.machines == 1 else alone


def _least_drastic(ways: Sequence[Way]) -> Way:
    waits = [way.step.waiting for way in ways]
    return ways[least_drastic(waits, [way.speedup for way in ways])]


def _interval(values: Sequence[float]) -> Interval:
    middle = median(values)
    spread = SIGMA * median(abs(value - middle) for value in values)
    half = math.hypot(LEFT_OUT * middle, NINETY * spread * math.sqrt(1 + 1 / len(values)))
    return Interval(max(0.0, middle - half), middle, middle + half)


def _middle(works: Sequence[Work]) -> Work:
    """Return the work of the round in the middle."""
    return sorted(works, key=lambda work: work.seconds)[len(works) // 2]


def _notes(measured: Measured) -> list[str]:
    """Return what a person should know besides the figures."""
    return [*_about_links(measured), *_about_machines(measured)]


def _about_links(measured: Measured) -> list[str]:
    notes = []
    rates = {(pair.sender, pair.receiver): pair.rate for pair in measured.pairs}
    for (sender, receiver), rate in rates.items():
        if rate < UNEVEN * rates.get((receiver, sender), rate):
            there, back = measured.machine(sender), measured.machine(receiver)
            ratio = rate / rates[receiver, sender]
            notes.append(f"{there} sends to {back} at {ratio:.0%} of the rate back")
    third = len(measured.pulses) // 3
    if third:
        first, last = median(measured.pulses[:third]), median(measured.pulses[-third:])
        if last < FADED * first:
            notes.append(
                f"the network's rate fell from {first * 8e-6:,.0f} to {last * 8e-6:,.0f} "
                "Mbit/s within seconds: burst credit; the lower rate is what lasts"
            )
    return notes


def _about_machines(measured: Measured) -> list[str]:
    notes = []
    times = {p.rank: median(_computing(u) for u in p.updates) for p in measured.processes}
    fastest = min(times.values())
    for process in measured.processes:
        if times[process.rank] > SLOWER * fastest:
            notes.append(
                f"rank {process.rank} on {process.host} takes "
                f"{times[process.rank] / fastest:.2f} times as long as the fastest"
            )
        shared = measured.workers if process.device == "cpu" else 1
        used = process.peak_bytes * shared / process.memory_bytes
        if used > FULL:
            notes.append(
                f"the memory of {process.host} is nearly full: {used:.0%}; lower "
                "`batching.tokens_per_micro_batch`"
            )
    if measured.checkpoint_bytes and any(
        p.rank == 0 and p.free_disk_bytes < 4 * measured.checkpoint_bytes
        for p in measured.processes
    ):
        notes.append("the disk of the run has no room for four checkpoints")
    work = median(_computing(update) for p in measured.processes for update in p.updates)
    if measured.loader_seconds > work:
        notes.append("the data are prepared more slowly than they are learnt from")
    return notes
