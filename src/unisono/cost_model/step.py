"""What one update costs: computing, and the part of the exchange that is exposed.

Gradients become ready from the last layer to the first. As soon as a bucket of them is full, it
is sent; buckets go one after the other. A step waits for what is still on the wire when the
backward pass ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.cost_model.exchange import Exchange, Link
from unisono.cost_model.probe_results import Gradient

USUAL_BUCKET_MB = 25.0  # torch's own
MEGABYTE = 1 << 20


def buckets_of(gradient_bytes: int, bucket_mb: float) -> list[int]:
    """Return the sizes of the buckets in the order in which they become ready.

    torch makes the first bucket smaller only if no size is set.
    """
    limit = max(1, int(bucket_mb * MEGABYTE))
    whole, rest = divmod(gradient_bytes, limit)
    return [limit] * whole + [rest] * (rest > 0)


def ready_times(sizes: Sequence[int], backward: float) -> list[float]:
    """Return when each bucket is full, if gradients come at an even pace."""
    whole, done, times = sum(sizes), 0, []
    for size in sizes:
        done += size
        times.append(backward * done / whole)
    return times


def filled(
    gradients: Sequence[Gradient], bucket_mb: float, backward: float
) -> tuple[list[int], list[float]]:
    """Return size of each bucket and when it is full, from when each gradient was seen ready.

    A gradient is never cut: a large one that comes last, as the embedding's does, is what a
    step waits for, however small the buckets.
    """
    limit = max(1, int(bucket_mb * MEGABYTE))
    sizes: list[int] = []
    times: list[float] = []
    size = 0
    for number, gradient in enumerate(gradients, start=1):
        size += gradient.bytes
        if size >= limit or number == len(gradients):
            sizes.append(size)
            times.append(backward * gradient.ready)
            size = 0
    return sizes, times


def embedding_first(gradients: Sequence[Gradient]) -> list[Gradient]:
    """Return the gradients if the embedding's is sent as far as it is ready at the start.

    That is about when the first of the others is ready.
    """
    others = [one for one in gradients if not one.embedding]
    first = min((one.ready for one in others), default=0.0)
    early = [Gradient(one.bytes, first, embedding=True) for one in gradients if one.embedding]
    return [*early, *others]


def arrivals(
    ready: Sequence[float], wire_bytes: Sequence[float], link: Link, messages: int = 1
) -> list[float]:
    """Return when each bucket has arrived; each waits until it is full and for its turn."""
    free, times = 0.0, []
    for time, count in zip(ready, wire_bytes, strict=True):
        free = max(free, time) + link.seconds(count, messages)
        times.append(free)
    return times


@dataclass(frozen=True)
class ComputeTimes:
    """Seconds of one update on one process, without any exchange.

    `other` is what else every update takes, such as waiting for data. `tail` is the share of
    the backward pass in which gradients become final and can be sent: that of the last
    micro-batch.
    """

    forward: float
    backward: float
    optimizer: float = 0.0
    other: float = 0.0
    tail: float = 1.0

    @property
    def seconds(self) -> float:
        """Return the length of an update of a process alone."""
        return self.forward + self.backward + self.optimizer + self.other


@dataclass(frozen=True)
class StepCost:
    """One update: its length, and how much of its exchange is exposed and how much hidden."""

    seconds: float
    computing: float
    exposed: float
    hidden: float

    @property
    def waiting(self) -> float:
        """Return the share of the time that is spent waiting for the network."""
        return self.exposed / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Inside:
    """The link inside a machine, and how many messages follow each other on it."""

    link: Link
    hops: int = 1

    def seconds(self, count: float) -> float:
        return self.link.seconds(count, self.hops)


def step_of(
    work: ComputeTimes,
    exchange: Exchange,
    link: Link,
    *,
    gradient_bytes: int,
    bucket_mb: float = USUAL_BUCKET_MB,
    hops: int = 1,
    gradients: Sequence[Gradient] = (),
    inside: Inside | None = None,
) -> StepCost:
    """Return what an update costs; `hops` messages follow each other in one exchange.

    Without `gradients` that say when each is ready, they come at an even pace. What each
    process passes on within its machine takes the link `inside`, if that is given: each bucket
    first passes there, and then between machines.
    """
    within = exchange.inside_bytes if inside else 0.0
    if exchange.card_bytes <= 0 and within <= 0:
        return StepCost(work.seconds, work.seconds, 0.0, 0.0)
    sizes, ready = _buckets(work, exchange, gradient_bytes, bucket_mb, gradients)
    window, whole = work.backward * work.tail, sum(sizes)
    waits = wire = 0.0
    if within > 0 and inside:
        parts = [within * size / whole for size in sizes]
        ready = arrivals(ready, parts, inside.link, inside.hops)
        waits, wire = max(0.0, ready[-1] - window), sum(map(inside.seconds, parts))
    alone = link.seconds(exchange.card_bytes, hops)
    if exchange.local:
        late = max(0.0, alone - exchange.every * (work.seconds + waits))
        exposed, wire = waits + late / exchange.every, wire + alone / exchange.every
    elif exchange.overlaps and exchange.every == 1:
        parts = [exchange.card_bytes * size / whole for size in sizes]
        exposed = max(0.0, arrivals(ready, parts, link, hops)[-1] - window)
        wire += sum(link.seconds(part, hops) for part in parts)
    else:
        exposed, wire = waits + alone / exchange.every, wire + alone / exchange.every
    return StepCost(work.seconds + exposed, work.seconds, exposed, max(0.0, wire - exposed))


def _buckets(
    work: ComputeTimes,
    exchange: Exchange,
    gradient_bytes: int,
    bucket_mb: float,
    gradients: Sequence[Gradient],
) -> tuple[list[int], list[float]]:
    """Return the size of each bucket, and when it is full."""
    window = work.backward * work.tail
    if gradients:
        order = embedding_first(gradients) if exchange.delays_embedding else gradients
        return filled(order, bucket_mb, window)
    sizes = buckets_of(gradient_bytes, bucket_mb)
    return sizes, ready_times(sizes, window)
