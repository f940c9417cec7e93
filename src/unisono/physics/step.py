"""What one update costs: computing, and what of the exchange is left to wait for."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.physics.exchange import Exchange
from unisono.physics.link import Link
from unisono.physics.measured import Gradient
from unisono.physics.pipeline import (
    USUAL_BUCKET_MB,
    buckets_of,
    end_of_exchange,
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


def step_of(
    work: Work,
    exchange: Exchange,
    link: Link,
    *,
    gradient_bytes: int,
    bucket_mb: float = USUAL_BUCKET_MB,
    hops: int = 1,
    gradients: Sequence[Gradient] = (),
) -> Step:
    """Return what an update costs; `hops` messages follow each other in one exchange.

    Where nobody has seen when which of the `gradients` is ready, they come evenly.
    """
    if exchange.card_bytes <= 0:
        return Step(work.seconds, work.seconds, 0.0, 0.0)
    alone = link.seconds(exchange.card_bytes, hops)
    if exchange.behind:
        late = max(0.0, alone - exchange.every * work.seconds)
        exposed, wire = late / exchange.every, alone / exchange.every
    elif exchange.overlaps and exchange.every == 1:
        window = work.backward * work.tail
        sizes = buckets_of(gradient_bytes, bucket_mb)
        ready = ready_times(sizes, window)
        if gradients:
            order = words_first(gradients) if exchange.late_words else gradients
            sizes, ready = filled(order, bucket_mb, window)
        share = exchange.card_bytes / sum(sizes)
        end = end_of_exchange(ready, [size * share for size in sizes], link, hops)
        wire = sum(link.seconds(size * share, hops) for size in sizes)
        exposed = max(0.0, end - window)
    else:
        exposed = wire = alone / exchange.every
    return Step(work.seconds + exposed, work.seconds, exposed, max(0.0, wire - exposed))
