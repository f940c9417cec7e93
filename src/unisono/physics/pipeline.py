"""Exchanging gradients while the backward pass still computes others.

Gradients become ready from the last layer to the first. As soon as a bucket of them is full,
it is sent; buckets go one after the other. What is still on the wire when the backward pass
ends is what a step waits for.
"""

from collections.abc import Sequence

from unisono.physics.link import Link
from unisono.physics.measured import Gradient

USUAL_BUCKET_MB = 25.0  # torch's own
MEGABYTE = 1 << 20


def buckets_of(gradient_bytes: int, bucket_mb: float) -> list[int]:
    """Return the sizes of the buckets in the order in which they become ready.

    torch makes the first one small only if it is left the choice of all.
    """
    limit = max(1, int(bucket_mb * MEGABYTE))
    whole, rest = divmod(gradient_bytes, limit)
    return [limit] * whole + [rest] * (rest > 0)


def ready_times(sizes: Sequence[int], backward: float) -> list[float]:
    """Return when each bucket is full, if gradients come evenly over the backward pass."""
    whole, done, times = sum(sizes), 0, []
    for size in sizes:
        done += size
        times.append(backward * done / whole)
    return times


def filled(
    gradients: Sequence[Gradient], bucket_mb: float, backward: float
) -> tuple[list[int], list[float]]:
    """Return size of each bucket and when it is full, from when each gradient was seen ready.

    A gradient is never cut: a large one that comes last, as that of the words does, is what
    a step waits for, however small the buckets.
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


def words_first(gradients: Sequence[Gradient]) -> list[Gradient]:
    """Return the gradients if that of the words is sent as far as it is ready at the start.

    Where the backward pass begins, that is about when the first of the others is ready.
    """
    others = [one for one in gradients if not one.words]
    first = min((one.ready for one in others), default=0.0)
    words = [Gradient(one.bytes, first, words=True) for one in gradients if one.words]
    return [*words, *others]


def arrivals(
    ready: Sequence[float], wire_bytes: Sequence[float], link: Link, messages: int = 1
) -> list[float]:
    """Return when each bucket has arrived; each waits until it is full and its turn."""
    free, times = 0.0, []
    for time, count in zip(ready, wire_bytes, strict=True):
        free = max(free, time) + link.seconds(count, messages)
        times.append(free)
    return times
