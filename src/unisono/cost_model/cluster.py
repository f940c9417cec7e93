"""Machines with devices in them, and what an update costs on all of them together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from unisono.cost_model.exchange import (
    BYTES_PER_FLOAT32,
    Exchange,
    Link,
    flat_ring,
    gathered,
    packed_bytes,
    ring_bytes,
)
from unisono.cost_model.probe_results import Gradient
from unisono.cost_model.step import (
    USUAL_BUCKET_MB,
    ComputeTimes,
    Inside,
    StepCost,
    buckets_of,
    step_of,
)

INSIDE = Link(10e9, 20e-6)  # PCIe between two devices of a machine
# A link that a rare exchange keeps busy all the time is late as soon as anything else is sent.
BUSY = 0.85
MOST_FRAGMENTS = 64
# Of more updates on one's own a small model is the worse for it, however slow the link.
MOST_LOCAL_STEPS = 100
NARROW_SUMS = 3  # of a bucket: its vectors, then one factor of its matrices, then the other
Bits = Literal[4, 8, 16]


@dataclass(frozen=True)
class Cluster:
    """So many machines, each with so many processes, and the links between and inside.

    If not all have as many, `workers` are those of the fullest, and `processes` those of all.
    """

    nodes: int
    workers: int
    link: Link
    inside: Link = INSIDE
    processes: int = 0

    @property
    def ranks(self) -> int:
        """Return the number of processes."""
        return self.processes or self.nodes * self.workers

    @property
    def parties(self) -> int:
        """Return how many speak in an exchange of packed numbers: one for each machine."""
        return self.nodes if self.nodes > 1 else self.workers

    def alone(self) -> "Cluster":
        """Return one machine of these."""
        return Cluster(1, self.workers, self.link, self.inside)


def exact_exchange(parameters: int, cluster: Cluster) -> Exchange:
    """Return what plain data-parallel training exchanges: every gradient, in float32."""
    if cluster.nodes == 1:
        # Nothing leaves the machine: the ring is inside.
        return Exchange("ddp", ring_bytes(parameters, cluster.workers))
    return Exchange("ddp", flat_ring(parameters, cluster.nodes, cluster.ranks))


def packed_exchange(parameters: int, cluster: Cluster, bits: int) -> Exchange:
    """Return every gradient in fewer bits; what rounding drops is added to the next one."""
    count = gathered(packed_bytes(parameters, bits), cluster.parties)
    inside = _within(parameters, cluster)
    return Exchange(
        f"{bits}-bit", count, exact=False, bits=bits, inside_bytes=inside, late_words=True
    )


def rare_exchange(
    parameters: int, cluster: Cluster, work: ComputeTimes, bits: Bits = 4
) -> Exchange:
    """Return an exchange behind the computing, after as few updates as hide it, or the most."""
    count = gathered(packed_bytes(parameters, bits), cluster.parties)
    seconds = cluster.link.seconds(count, cluster.parties - 1)
    every = min(MOST_LOCAL_STEPS, max(1, math.ceil(seconds / BUSY / work.seconds)))
    while not _divides(every):
        every += 1
    return local_exchange(parameters, cluster, every, bits)


def _divides(every: int) -> bool:
    """Whether many fragments can take turns in so many updates, at equal distances."""
    many = range(MOST_FRAGMENTS // 2 + 1, MOST_FRAGMENTS + 1)
    return every <= MOST_FRAGMENTS or any(every % count == 0 for count in many)


def local_exchange(parameters: int, cluster: Cluster, every: int, bits: int) -> Exchange:
    """Return an exchange behind the computing of `every` updates that machines make alone."""
    return Exchange(
        f"diloco, every {every}",
        gathered(packed_bytes(parameters, bits), cluster.parties),
        every=every,
        behind=True,
        exact=False,
        bits=bits,
        inside_bytes=_within(parameters, cluster),
    )


def narrow_exchange(numbers: int, cluster: Cluster) -> Exchange:
    """Return PowerSGD's exchange of so many `numbers`, for which each bucket is waited for."""
    ring = flat_ring(numbers, cluster.nodes, cluster.ranks)
    return Exchange("powersgd", ring, overlaps=False, exact=False, narrow=True)


def _within(parameters: int, cluster: Cluster) -> float:
    """Return what a process passes on for the sum of its machine, and to get that of all."""
    return ring_bytes(parameters, cluster.workers) if cluster.nodes > 1 else 0.0


def step_on(
    cluster: Cluster,
    work: ComputeTimes,
    exchange: Exchange,
    parameters: int,
    *,
    bucket_mb: float = USUAL_BUCKET_MB,
    gradients: Sequence[Gradient] = (),
) -> StepCost:
    """Return an update of `work` on every process of `cluster`; see `step_of`.

    A ring over several machines is as slow as its slowest link: what passes inside a machine
    meanwhile is hidden. Where machines sum within themselves first, that has its time.
    """
    link = cluster.link if cluster.nodes > 1 else cluster.inside
    ring = exchange.exact or exchange.narrow
    hops = 2 * (cluster.ranks - 1) if ring else cluster.parties - 1
    gradient_bytes = parameters * BYTES_PER_FLOAT32
    if exchange.narrow:
        hops *= NARROW_SUMS * len(buckets_of(gradient_bytes, bucket_mb))
    return step_of(
        work,
        exchange,
        link,
        gradient_bytes=gradient_bytes,
        bucket_mb=bucket_mb,
        hops=max(1, hops),
        gradients=gradients,
        inside=Inside(cluster.inside, max(1, 2 * (cluster.workers - 1))),
    )


def choices(parameters: int, cluster: Cluster, work: ComputeTimes) -> list[Exchange]:
    """Return the ways to agree, the least drastic first."""
    exact = exact_exchange(parameters, cluster)
    if cluster.nodes == 1:
        return [exact]
    packed = [packed_exchange(parameters, cluster, bits) for bits in (16, 8, 4)]
    return [exact, *packed, rare_exchange(parameters, cluster, work)]
