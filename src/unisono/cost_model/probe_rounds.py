"""Rounds of the probes, in which computing and network were measured in turn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import median

from unisono.cost_model.cluster import INSIDE, Cluster, exact_exchange, step_on
from unisono.cost_model.exchange import BYTES_PER_FLOAT32, Exchange, Link, ring_bytes
from unisono.cost_model.probe_results import Packing, ProbeResults, Update, computing_of
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
    count = min(len(process.updates) for process in measured.processes)
    return [_round(measured, number) for number in range(count)]


def _round(measured: ProbeResults, number: int) -> Round:
    processes, tail = measured.processes, measured.job.tail
    updates = [process.updates[number] for process in processes]
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


@dataclass(frozen=True)
class ProbedMachines:
    """All machines of the probes, or those with the numbers `on`, in the rounds of the probes.

    If only some machines do the work of all, each of their processes computes a larger share.
    """

    measured: ProbeResults
    on: tuple[int, ...] = ()

    @cached_property
    def rounds(self) -> list[Round]:
        return rounds_of(self.measured)

    @property
    def middle(self) -> Round:
        """Return the median round, by its work."""
        return sorted(self.rounds, key=lambda one: one.work.seconds)[len(self.rounds) // 2]

    @property
    def link(self) -> Link:
        """Return the median link."""
        rates = [one.link.bytes_per_second for one in self.rounds]
        return Link(median(rates), self.rounds[0].link.latency)

    @cached_property
    def members(self) -> list[list[int]]:
        """Return the ranks of each machine."""
        members = self.measured.members
        return [members[number] for number in self.on] or members

    @property
    def larger_share(self) -> float:
        """Return how many times its share of an update a process computes here."""
        return len(self.measured.processes) / sum(map(len, self.members))

    def cluster(self, link: Link) -> Cluster:
        """Return these machines for the cost model, if they are joined by `link`."""
        # On one machine, the probes measured the link inside it.
        inside = link if self.measured.machines == 1 else INSIDE
        count = [len(ranks) for ranks in self.members]
        return Cluster(len(count), max(count), link, inside, sum(count))

    def exact_exchange(self) -> Exchange:
        """Return what plain data-parallel training exchanges here."""
        return exact_exchange(self.measured.job.parameters, self.cluster(self.rounds[0].link))

    def work(self, one: Round) -> ComputeTimes:
        """Return the work of the slowest process in a round."""
        if not self.on:
            return one.work
        work = max((one.machines[number] for number in self.on), key=lambda work: work.seconds)
        forward, backward = work.forward * self.larger_share, work.backward * self.larger_share
        tail = work.tail / self.larger_share
        return replace(work, forward=forward, backward=backward, tail=tail)

    def best_bucket(self, exchange: Exchange) -> float:
        """Return the largest bucket with which a step is about as short as with any other.

        A step waits for the last bucket, so it should be small; but each bucket costs its
        latency.
        """
        times = {mb: self.step(self.middle, exchange, mb).seconds for mb in BUCKETS_MB}
        shortest = min(times.values())
        return max(mb for mb, seconds in times.items() if seconds <= (1 + AS_GOOD) * shortest)

    def steps(self, exchange: Exchange, bucket_mb: float) -> list[StepCost]:
        """Return an update of the job as it was in each round."""
        return [self.step(one, exchange, bucket_mb) for one in self.rounds]

    def step(self, one: Round, exchange: Exchange, bucket_mb: float) -> StepCost:
        """Return an update of the job as it was in one round."""
        work, cluster, job = self.work(one), self.cluster(one.link), self.measured.job
        cost = partial(
            step_on,
            cluster,
            exchange=exchange,
            parameters=job.parameters,
            bucket_mb=bucket_mb,
            gradients=job.gradients,
        )
        if not exchange.card_bytes or not one.toll:
            return cost(work)
        packed = _taxed(work, self._packing(exchange, cluster))
        free = cost(packed)
        # Only an exchange that overlaps with computing slows it down: while a process waits
        # for an exchange, nothing else needs the CPU.
        beside = free.hidden / (free.hidden + free.exposed) if free.hidden > 0 else 0.0
        toll = beside * one.toll * exchange.card_bytes / exchange.every
        toll += min(one.toll, FREE_TOLL) * exchange.inside_bytes
        return cost(_taxed(packed, toll))

    def _packing(self, exchange: Exchange, cluster: Cluster) -> float:
        """Return the CPU seconds that an update takes to make its exchange smaller."""
        measured = self.measured
        packing = {packing.bits: packing for packing in measured.packings}.get(exchange.bits)
        each = _packing_seconds(packing, cluster.senders, exchange.phases) if packing else 0.0
        each += measured.outer_seconds if exchange.local else 0.0
        whole = each * measured.job.parameters
        whole += measured.narrowing_seconds if exchange.low_rank else 0.0
        return whole / exchange.every


def _packing_seconds(packing: Packing, senders: int, phases: int) -> float:
    """Return the CPU seconds for each number.

    In two phases a process adds up only its share of what others send, quantizes that once more
    and dequantizes each sum once.
    """
    if phases == 1:
        return packing.pack + senders * packing.unpack
    return (1 + 1 / senders) * packing.pack + (2 - 1 / senders) * packing.unpack


def _taxed(work: ComputeTimes, seconds: float) -> ComputeTimes:
    """Return work on a CPU that also does the exchange, during the backward pass."""
    longer = work.backward + seconds
    tail = (work.backward * work.tail + seconds) / longer if longer > 0 else 1.0
    return replace(work, backward=longer, tail=tail)
