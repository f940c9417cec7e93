"""Machines with devices in them, and what an update costs on all of them together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from unisono.cost_model.exchange import (
    BYTES_PER_FLOAT32,
    Exchange,
    Link,
    cheaper_phases,
    quantized_bytes,
    ring_bytes,
    usual_phases,
)
from unisono.cost_model.probe_results import Gradient, TrainingJob
from unisono.cost_model.step import (
    USUAL_BUCKET_MB,
    ComputeTimes,
    Inside,
    StepCost,
    buckets_of,
    step_of,
)
from unisono.cost_model.strategies import (
    DEFAULT_STRATEGY,
    STRATEGIES,
    Payload,
    StrategyFacts,
    facts_of,
)

INSIDE = Link(10e9, 20e-6)  # PCIe between two devices of a machine
# A link that local updates keep busy all the time is late as soon as anything else is sent.
BUSY = 0.85
MOST_FRAGMENTS = 64
# More local updates than this harm a small model, however slow the link.
MOST_LOCAL_STEPS = 100
LOCAL_BITS = 4  # of each number, where machines agree rarely
QUANTIZED_BITS = (16, 8, 4)  # that a gradient can be quantized to, the least drastic first
LOW_RANK_SUMS = 3  # of a bucket: its vectors, then one factor of its matrices, then the other


@dataclass(frozen=True)
class Cluster:
    """So many machines, each with so many processes, and the links between and inside.

    If machines have unequal numbers of processes, `workers` is that of the fullest machine and
    `processes` is the number of all.
    """

    nodes: int
    workers: int
    link: Link
    inside: Link = INSIDE
    processes: int = 0

    @property
    def ranks(self) -> int:
        return self.processes or self.nodes * self.workers

    @property
    def senders(self) -> int:
        """Return how many send quantized numbers: one for each machine."""
        return self.nodes if self.nodes > 1 else self.workers

    def alone(self) -> "Cluster":
        return Cluster(1, self.workers, self.link, self.inside)


def exchange_by(
    facts: StrategyFacts,
    parameters: int,
    cluster: Cluster,
    *,
    bits: int = 32,
    every: int = 1,
    low_rank_numbers: int = 0,
    phases: int = 0,
) -> Exchange:
    """Return what a strategy exchanges; `bits`, `every`, `phases` count where it heeds them."""
    sent_bits, rounds = facts.bits(bits), facts.every(every)
    phases = (phases or usual_phases(cluster.senders)) if facts.quantized else 1
    payload = Payload(
        parameters, cluster.nodes, cluster.ranks, sent_bits, low_rank_numbers, phases
    )
    # A machine sums within itself first if one of its processes sends for all.
    hierarchical = facts.quantized and cluster.nodes > 1
    return Exchange(
        name=facts.label.format(name=facts.name, bits=sent_bits, every=rounds),
        card_bytes=facts.wire_bytes(payload),
        strategy=facts.name,
        every=rounds,
        overlaps=facts.overlaps,
        local=facts.local,
        exact=facts.exact,
        bits=sent_bits,
        inside_bytes=ring_bytes(parameters, cluster.workers) if hierarchical else 0.0,
        low_rank=facts.low_rank,
        delays_embedding=facts.delays_embedding,
        phases=phases,
    )


def exact_exchange(parameters: int, cluster: Cluster) -> Exchange:
    """Return what plain data-parallel training exchanges: every gradient, in float32."""
    return exchange_by(STRATEGIES[DEFAULT_STRATEGY], parameters, cluster)


def configured_exchange(job: TrainingJob, cluster: Cluster) -> Exchange | None:
    """Return what the strategy of the settings exchanges; None if it is yet to be chosen."""
    facts = facts_of(job.strategy)
    if facts is None:
        return None
    return exchange_by(
        facts,
        job.parameters,
        cluster,
        bits=job.bits,
        every=job.local_steps,
        low_rank_numbers=job.low_rank_numbers,
        phases=job.phases,
    )


def hiding_steps(
    facts: StrategyFacts, parameters: int, cluster: Cluster, each: float, phases: int = 0
) -> int:
    """Return the fewest local updates, of `each` so many seconds, that hide an exchange."""
    sent = exchange_by(facts, parameters, cluster, bits=LOCAL_BITS, phases=phases)
    sending = cluster.link.seconds(sent.card_bytes, sent.phases)
    every = min(MOST_LOCAL_STEPS, max(1, math.ceil(sending / BUSY / each)))
    while not _divides(every):
        every += 1
    return every


def _divides(every: int) -> bool:
    """Whether many fragments can take turns in so many updates, at equal distances."""
    many = range(MOST_FRAGMENTS // 2 + 1, MOST_FRAGMENTS + 1)
    return every <= MOST_FRAGMENTS or any(every % count == 0 for count in many)


def choices(
    parameters: int,
    cluster: Cluster,
    work: ComputeTimes,
    low_rank_numbers: int = 0,
    phases: int = 0,
) -> list[Exchange]:
    """Return the exchanges to compare, the least drastic first.

    A low-rank one is among them if it is known how many numbers it sends. Without `phases`,
    those are taken that are cheaper.
    """
    if cluster.nodes == 1:
        return [exact_exchange(parameters, cluster)]
    return [
        exchange
        for facts in STRATEGIES.values()
        if facts.listed and (low_rank_numbers or not facts.low_rank)
        for exchange in _variants(facts, parameters, cluster, work, low_rank_numbers, phases)
    ]


def _variants(
    facts: StrategyFacts,
    parameters: int,
    cluster: Cluster,
    work: ComputeTimes,
    low_rank: int,
    wanted: int,
) -> Iterator[Exchange]:
    exchange = partial(exchange_by, facts, parameters, cluster)
    if facts.local:
        phases = wanted or _phases(parameters, cluster, LOCAL_BITS)
        every = hiding_steps(facts, parameters, cluster, work.seconds, phases)
        yield exchange(bits=LOCAL_BITS, every=every, phases=phases)
        return
    for bits in QUANTIZED_BITS if facts.quantized else (32,):
        phases = wanted or _phases(parameters, cluster, bits)
        yield exchange(bits=bits, low_rank_numbers=low_rank, phases=phases)


def _phases(parameters: int, cluster: Cluster, bits: int) -> int:
    """Return in how many phases quantized gradients are summed sooner."""
    buckets = len(buckets_of(parameters * BYTES_PER_FLOAT32, USUAL_BUCKET_MB))
    message = quantized_bytes(parameters, bits)
    return cheaper_phases(message, cluster.senders, cluster.link, buckets)


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
    meanwhile is hidden. Where machines sum within themselves first, that takes time of its own.
    """
    link = cluster.link if cluster.nodes > 1 else cluster.inside
    ring = exchange.bits == 32
    # A ring passes messages on. A quantized one goes to all others at once, in every phase.
    hops = 2 * (cluster.ranks - 1) if ring else exchange.phases
    gradient_bytes = parameters * BYTES_PER_FLOAT32
    if exchange.low_rank:
        hops *= LOW_RANK_SUMS * len(buckets_of(gradient_bytes, bucket_mb))
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
