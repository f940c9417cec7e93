"""One way to run a job, as measurements foretell it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from unisono.physics.bill import SECONDS_PER_HOUR, why_not
from unisono.physics.cluster import exact_exchange, packed_exchange
from unisono.physics.course import Course, course_of
from unisono.physics.exchange import Exchange
from unisono.physics.measured import Measured
from unisono.physics.pipeline import USUAL_BUCKET_MB
from unisono.physics.rounds import Round, best_bucket, cluster_of, middle_of, step_in
from unisono.physics.step import Step

AUTO = "auto"  # as `sync.strategy` calls it
# What the physics leaves out, as a share of a step, besides what the rounds differ by: with it
# 21 of the 24 cases of benchmarks/check.py are within the interval.
LEFT_OUT = 0.08
NINETY = 1.645  # standard deviations that hold 90 % of a normal distribution
SIGMA = 1.4826  # of a normal distribution, in median deviations


@dataclass(frozen=True)
class Interval:
    """A number and where it lies nine times out of ten."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Way:
    """One way to run the job: on so many machines, with this exchange.

    `step` is an update that the exchange is for, `course` the whole run. `hosts` are the names
    of the machines if these are not all.
    """

    machines: int
    exchange: Exchange
    step: Step
    seconds: Interval
    course: Course
    hours: float
    money: float
    speedup: float
    bucket_mb: float = USUAL_BUCKET_MB
    stop: str = ""
    hosts: tuple[str, ...] = ()

    @property
    def update_seconds(self) -> float:
        """Return what an update takes with its share of the whole run, if its end is known."""
        return _for_each(self.course, self.step)

    @property
    def waiting(self) -> float:
        """Return the share of the run, or of a step, that is spent waiting for the network."""
        return _waiting(self.course, self.step)


def way_of(
    measured: Measured,
    rounds: Sequence[Round],
    exchange: Exchange,
    price: float,
    alone: Way | None = None,
    on: Sequence[int] = (),
) -> Way:
    """Return one way on all machines, or on some, compared with one `alone`."""
    bucket_mb = _bucket_for(measured, rounds, exchange, on)
    steps = [step_in(measured, one, exchange, bucket_mb, on) for one in rounds]
    step = _middle(steps)
    link = middle_of(rounds).link
    opening = _opening(measured, rounds, exchange, bucket_mb, on)
    course = course_of(measured, exchange, step, link, opening, on)
    machines = len(on) or measured.machines
    hours = course.seconds / SECONDS_PER_HOUR if course.updates else 0.0
    speedup = alone.update_seconds / _for_each(course, step) if alone else 1.0
    return Way(
        machines=machines,
        exchange=exchange,
        step=step,
        seconds=_interval([one.seconds for one in steps]),
        course=course,
        hours=hours,
        money=hours * machines * price,
        speedup=speedup,
        bucket_mb=bucket_mb,
        stop=why_not(machines, speedup, _waiting(course, step)),
        hosts=tuple(measured.machine(number) for number in on),
    )


def _bucket_for(
    measured: Measured, rounds: Sequence[Round], exchange: Exchange, on: Sequence[int]
) -> float:
    """Return the size of buckets: as it is set, or with "auto" the best, or the usual."""
    if measured.job.bucket_mb or measured.job.strategy != AUTO:
        return measured.job.bucket_mb or USUAL_BUCKET_MB
    return best_bucket(measured, rounds, exchange, on)


def _opening(
    measured: Measured,
    rounds: Sequence[Round],
    exchange: Exchange,
    bucket_mb: float,
    on: Sequence[int],
) -> Step | None:
    """Return an update of those before machines go apart, or gradients become narrow."""
    if not (exchange.behind or exchange.narrow):
        return None
    size, cluster = measured.job.parameters, cluster_of(measured, rounds[0].link, on)
    first = exact_exchange(size, cluster)
    if exchange.behind:
        first = replace(packed_exchange(size, cluster, exchange.bits), late_words=False)
    return _middle([step_in(measured, one, first, bucket_mb, on) for one in rounds])


def _middle(steps: Sequence[Step]) -> Step:
    return sorted(steps, key=lambda one: one.seconds)[len(steps) // 2]


def _for_each(course: Course, step: Step) -> float:
    return course.seconds / course.updates if course.updates else step.seconds


def _waiting(course: Course, step: Step) -> float:
    if not course.updates or course.seconds <= 0:
        return step.waiting
    return course.waiting_seconds / course.seconds


def _interval(values: Sequence[float]) -> Interval:
    middle = median(values)
    spread = SIGMA * median(abs(value - middle) for value in values)
    half = math.hypot(LEFT_OUT * middle, NINETY * spread * math.sqrt(1 + 1 / len(values)))
    return Interval(max(0.0, middle - half), middle, middle + half)
