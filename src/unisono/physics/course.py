"""A whole run: updates of one kind and of another, and what comes between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from unisono.physics.exchange import Exchange, meeting_bytes
from unisono.physics.link import Link
from unisono.physics.measured import Job, Measured
from unisono.physics.ring import BYTES_PER_FLOAT32
from unisono.physics.rounds import shares_on
from unisono.physics.step import Step


@dataclass(frozen=True)
class Course:
    """What a run of so many updates takes in all, and how much of that is waiting.

    `together` are those of its updates that are made before and after those the exchange is
    for, and take `together_seconds` each. Machines that went apart meet `meetings` times, for
    `meeting_seconds` each.
    """

    updates: int
    seconds: float
    waiting_seconds: float
    together: int = 0
    together_seconds: float = 0.0
    meetings: int = 0
    meeting_seconds: float = 0.0


def course_of(
    measured: Measured,
    exchange: Exchange,
    step: Step,
    link: Link,
    opening: Step | None = None,
    on: Sequence[int] = (),
) -> Course:
    """Return a run with `exchange` on all machines, or on those with these numbers.

    `opening` is an update of those made before and after, if there are such.
    """
    job = measured.job
    together = min(job.updates, _made_together(job, exchange)) if opening else 0
    first = opening or step
    meetings = _meetings(job) if exchange.behind else 0
    machines = len(on) or measured.machines
    each = link.seconds(meeting_bytes(job.parameters, machines, averages=job.averages))
    exposed = (job.updates - together) * step.exposed + together * first.exposed
    waiting = exposed + meetings * each + _saving(measured, exchange, link, on)
    computing = (job.updates - together) * step.computing + together * first.computing
    beside = job.evaluations * measured.evaluation_seconds * shares_on(measured, on)
    beside += job.checkpoints * measured.checkpoint_seconds
    return Course(
        updates=job.updates,
        seconds=computing + waiting + beside,
        waiting_seconds=waiting,
        together=together,
        together_seconds=first.seconds,
        meetings=meetings,
        meeting_seconds=each,
    )


def _made_together(job: Job, exchange: Exchange) -> int:
    return job.warmup_steps + (job.closing_steps if exchange.behind else 0)


def _meetings(job: Job) -> int:
    """Return how often machines have to have the same: whenever anybody looks, and at last."""
    first, last = job.warmup_steps, job.updates - job.closing_steps
    if last <= first:
        return 0
    evaluated, saved = job.evaluation_every, job.checkpoint_every
    both = math.lcm(evaluated, saved)
    looks = _multiples(evaluated, first, last) + _multiples(saved, first, last)
    looks -= _multiples(both, first, last)
    seen = any(every and last % every == 0 for every in (evaluated, saved))
    return looks + (not seen)


def _multiples(every: int, after: int, up_to: int) -> int:
    return up_to // every - after // every if every else 0


def _saving(measured: Measured, exchange: Exchange, link: Link, on: Sequence[int]) -> float:
    """Return how long checkpoints wait for what rounding left over on other machines.

    Each process hands its own, four bytes a weight, to the leading one. Machines that are
    apart have none.
    """
    job, members = measured.job, measured.members_on(on)
    if exchange.exact or len(members) == 1:
        return 0.0
    count = job.checkpoints
    if exchange.behind:
        last = max(job.warmup_steps, job.updates - job.closing_steps)
        apart = _multiples(job.checkpoint_every, job.warmup_steps, last)
        apart += last == job.updates and job.updates % max(1, job.checkpoint_every) > 0
        count -= apart
    theirs = sum(map(len, members[1:]))
    return count * link.seconds(theirs * BYTES_PER_FLOAT32 * job.parameters)
