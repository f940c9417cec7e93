"""Turns of the probes: computing and network measured one after the other, as updates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unisono.physics.cluster import Cluster, step_on
from unisono.physics.exchange import Exchange
from unisono.physics.link import Link
from unisono.physics.measured import Measured, Process, computing_of
from unisono.physics.pipeline import USUAL_BUCKET_MB
from unisono.physics.ring import BYTES_PER_FLOAT32, ring_bytes
from unisono.physics.step import Step, Work

BUCKETS_MB = (USUAL_BUCKET_MB, 16.0, 8.0, 4.0, 2.0, 1.0)
AS_GOOD = 0.005  # of a step: the larger of two buckets has fewer messages to go wrong


@dataclass(frozen=True)
class Round:
    """One turn of the probes: the work of the slowest process, and the link as it was."""

    work: Work
    link: Link
    toll: float  # seconds of the processor for each byte on the wire, if it also computes


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


def middle_of(rounds: Sequence[Round]) -> Round:
    """Return the round in the middle, by its work."""
    return sorted(rounds, key=lambda one: one.work.seconds)[len(rounds) // 2]


def best_bucket(
    measured: Measured, rounds: Sequence[Round], machines: int, exchange: Exchange
) -> float:
    """Return the largest bucket with which a step is about as short as with any other.

    The last one is what a step waits for, so it should be small; but each costs its latency.
    """
    one = middle_of(rounds)
    times = {mb: step_in(measured, one, machines, exchange, mb).seconds for mb in BUCKETS_MB}
    shortest = min(times.values())
    return max(mb for mb, seconds in times.items() if seconds <= (1 + AS_GOOD) * shortest)


def step_in(
    measured: Measured, one: Round, machines: int, exchange: Exchange, bucket_mb: float
) -> Step:
    """Return an update of the job on so many of the machines, as it was in one round."""
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
