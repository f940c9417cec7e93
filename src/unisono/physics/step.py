"""What one update costs: computing, and what of the exchange is left to wait for."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.physics.exchange import Exchange
from unisono.physics.link import Link
from unisono.physics.measured import Gradient
from unisono.physics.pipeline import (
    USUAL_BUCKET_MB,
    arrivals,
    buckets_of,
    filled,
    ready_times,
    words_first,
)


@dataclass(frozen=True)
class Work:
    """Seconds of one update on one process, without any exchange.

    `other` is what every update pays besides: data not ready, evaluations and checkpoints
    spread over the updates between them. `tail` is the share of the backward pass in which
    gradients become final and can be sent: that of the last micro-batch.
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
class Step:
    """One update: its length, and how much of its exchange was seen and how much hidden."""

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
    """The way between the processes of a machine, and how many messages follow each other."""

    link: Link
    hops: int = 1

    def seconds(self, count: float) -> float:
        """Return how long `count` bytes take."""
        return self.link.seconds(count, self.hops)


def step_of(
    work: Work,
    exchange: Exchange,
    link: Link,
    *,
    gradient_bytes: int,
    bucket_mb: float = USUAL_BUCKET_MB,
    hops: int = 1,
    gradients: Sequence[Gradient] = (),
    inside: Inside | None = None,
) -> Step:
    """Return what an update costs; `hops` messages follow each other in one exchange.

    Where nobody has seen when which of the `gradients` is ready, they come evenly. What each
    process passes on within its machine takes the way `inside`, if that is given: a bucket
    first, and then what goes between machines.
    """
    within = exchange.inside_bytes if inside else 0.0
    if exchange.card_bytes <= 0 and within <= 0:
        return Step(work.seconds, work.seconds, 0.0, 0.0)
    sizes, ready = _buckets(work, exchange, gradient_bytes, bucket_mb, gradients)
    window, whole = work.backward * work.tail, sum(sizes)
    waits = wire = 0.0
    if within > 0 and inside:
        parts = [within * size / whole for size in sizes]
        ready = arrivals(ready, parts, inside.link, inside.hops)
        waits, wire = max(0.0, ready[-1] - window), sum(map(inside.seconds, parts))
    alone = link.seconds(exchange.card_bytes, hops)
    if exchange.behind:
        late = max(0.0, alone - exchange.every * (work.seconds + waits))
        exposed, wire = waits + late / exchange.every, wire + alone / exchange.every
    elif exchange.overlaps and exchange.every == 1:
        parts = [exchange.card_bytes * size / whole for size in sizes]
        exposed = max(0.0, arrivals(ready, parts, link, hops)[-1] - window)
        wire += sum(link.seconds(part, hops) for part in parts)
    else:
        exposed, wire = waits + alone / exchange.every, wire + alone / exchange.every
    return Step(work.seconds + exposed, work.seconds, exposed, max(0.0, wire - exposed))


def _buckets(
    work: Work,
    exchange: Exchange,
    gradient_bytes: int,
    bucket_mb: float,
    gradients: Sequence[Gradient],
) -> tuple[list[int], list[float]]:
    """Return the size of each bucket, and when it is full."""
    window = work.backward * work.tail
    if gradients:
        order = words_first(gradients) if exchange.late_words else gradients
        return filled(order, bucket_mb, window)
    sizes = buckets_of(gradient_bytes, bucket_mb)
    return sizes, ready_times(sizes, window)
