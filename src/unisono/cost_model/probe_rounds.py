"""Rounds of the probes, in which computing and network were measured in turn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from unisono.cost_model.cluster import INSIDE, Cluster, step_on
from unisono.cost_model.exchange import BYTES_PER_FLOAT32, Exchange, Link, ring_bytes
from unisono.cost_model.probe_results import ProbeResults, Process, Update, computing_of
from unisono.cost_model.step import USUAL_BUCKET_MB, ComputeTimes, StepCost

BUCKETS_MB = (USUAL_BUCKET_MB, 16.0, 8.0, 4.0, 2.0, 1.0)
FREE_TOLL = 2.5e-9  # CPU seconds for each byte sent over a fast network
AS_GOOD = 0.005  # of a step: of two buckets as good, the larger needs fewer messages


@dataclass(frozen=True)
class Round:
    """One round of the probes: the work of the slowest process, and the link at that time.

    `machines` has the work of the slowest process of each machine. `toll` is the CPU time for
    each byte on the wire, if the CPU also computes.
    """

    work: ComputeTimes
    link: Link
    toll: float
    machines: tuple[ComputeTimes, ...]


def rounds_of(measured: ProbeResults) -> list[Round]:
    """Return the rounds of the probes, of all processes together."""
    processes = measured.processes
    count = min(len(process.updates) for process in processes)
    return [_round(measured, processes, number) for number in range(count)]


def _round(measured: ProbeResults, processes: Sequence[Process], number: int) -> Round:
    updates = [process.updates[number] for process in processes]
    tail = measured.job.tail
    machines = [_slowest([updates[rank] for rank in ranks], tail) for ranks in measured.members]
    sums = [p.sums[number] for p in processes]
    ranks = len(processes)
    hops = max(1, 2 * (ranks - 1))
    # All begin together; those that took longer also waited for others.
    seconds = max(1e-9, min(one.seconds for one in sums) - measured.latency)
    count = ring_bytes(sums[0].bytes // BYTES_PER_FLOAT32, ranks)
    link = Link(max(1.0, count / seconds), measured.latency / hops)
    busy = max(one.processor_seconds for one in sums) / max(1, count)
    computes = all(process.device == "cpu" for process in processes)
    toll = busy if computes and ranks > 1 else 0.0
    return Round(_slowest(updates, tail), link, toll, tuple(machines))


def _slowest(updates: Sequence[Update], tail: float) -> ComputeTimes:
    one = max(updates, key=computing_of)
    return ComputeTimes(one.forward, one.backward, one.optimizer, one.other, tail=tail)


def middle_of(rounds: Sequence[Round]) -> Round:
    """Return the median round, by its work."""
    return sorted(rounds, key=lambda one: one.work.seconds)[len(rounds) // 2]


def best_bucket(
    measured: ProbeResults,
    rounds: Sequence[Round],
    exchange: Exchange,
    on: Sequence[int] = (),
) -> float:
    """Return the largest bucket with which a step is about as short as with any other.

    A step waits for the last bucket, so it should be small; but each bucket costs its latency.
    """
    one = middle_of(rounds)
    times = {mb: step_in(measured, one, exchange, mb, on).seconds for mb in BUCKETS_MB}
    shortest = min(times.values())
    return max(mb for mb, seconds in times.items() if seconds <= (1 + AS_GOOD) * shortest)


def cluster_of(measured: ProbeResults, link: Link, on: Sequence[int] = ()) -> Cluster:
    """Return all machines of the probes, or those with these numbers."""
    # On one machine, the probes measured the link inside it.
    inside = link if measured.machines == 1 else INSIDE
    taken = measured.members_on(on)
    count = [len(ranks) for ranks in taken]
    return Cluster(len(taken), max(count), link, inside, sum(count))


def step_in(
    measured: ProbeResults,
    one: Round,
    exchange: Exchange,
    bucket_mb: float,
    on: Sequence[int] = (),
) -> StepCost:
    """Return an update of the job as it was in one round, on all machines or on some."""
    work, cluster = work_on(measured, one, on), cluster_of(measured, one.link, on)
    step = partial(
        step_on,
        cluster,
        exchange=exchange,
        parameters=measured.job.parameters,
        bucket_mb=bucket_mb,
        gradients=measured.job.gradients,
    )
    if not exchange.card_bytes or not one.toll:
        return step(work)
    packed = _taxed(work, _packing(measured, exchange, cluster))
    free = step(packed)
    # Only an exchange that overlaps with computing slows it down: while a process waits for an
    # exchange, nothing else needs the CPU.
    beside = free.hidden / (free.hidden + free.exposed) if free.hidden > 0 else 0.0
    toll = beside * one.toll * exchange.card_bytes / exchange.every
    toll += min(one.toll, FREE_TOLL) * exchange.inside_bytes
    return step(_taxed(packed, toll))


def work_on(measured: ProbeResults, one: Round, on: Sequence[int] = ()) -> ComputeTimes:
    """Return the work of the slowest process, if only some machines do the work of all."""
    if not on:
        return one.work
    work = max((one.machines[number] for number in on), key=lambda work: work.seconds)
    more = shares_on(measured, on)
    return replace(
        work,
        forward=work.forward * more,
        backward=work.backward * more,
        tail=work.tail / more,
    )


def shares_on(measured: ProbeResults, on: Sequence[int] = ()) -> float:
    """Return how many times its share a process computes if these machines do all the work."""
    return len(measured.processes) / sum(map(len, measured.members_on(on)))


def _packing(measured: ProbeResults, exchange: Exchange, cluster: Cluster) -> float:
    """Return the CPU seconds that an update takes to make its exchange smaller."""
    packing = {packing.bits: packing for packing in measured.packings}.get(exchange.bits)
    each = packing.pack + cluster.senders * packing.unpack if packing else 0.0
    each += measured.outer_seconds if exchange.local else 0.0
    whole = each * measured.job.parameters
    whole += measured.narrowing_seconds if exchange.low_rank else 0.0
    return whole / exchange.every


def _taxed(work: ComputeTimes, seconds: float) -> ComputeTimes:
    """Return work on a CPU that also does the exchange, during the backward pass."""
    longer = work.backward + seconds
    tail = (work.backward * work.tail + seconds) / longer if longer > 0 else 1.0
    return replace(work, backward=longer, tail=tail)
