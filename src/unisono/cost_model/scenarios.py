"""All ways to run a job on some machines: what each takes, which is configured, which is best.

A way is a scenario: a number of machines and an exchange.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from unisono.cost_model.cluster import (
    MOST_LOCAL_STEPS,
    Cluster,
    choices,
    configured_exchange,
    exact_exchange,
    exchange_by,
)
from unisono.cost_model.exchange import Exchange, Link
from unisono.cost_model.probe_results import ProbeResults
from unisono.cost_model.probe_rounds import (
    FREE_TOLL,
    Round,
    best_bucket,
    cluster_of,
    middle_of,
    step_in,
    work_on,
)
from unisono.cost_model.run_cost import (
    HIDDEN,
    SECONDS_PER_HOUR,
    Option,
    RunCost,
    least_drastic,
    run_cost_of,
    why_not,
)
from unisono.cost_model.step import USUAL_BUCKET_MB, ComputeTimes, StepCost
from unisono.cost_model.strategies import AUTO, STRATEGIES, is_local

# The error of the model, as a share of a step, besides the spread of the rounds: with it 21 of
# the 24 cases of benchmarks/check.py are within the interval.
LEFT_OUT = 0.08
NINETY = 1.645  # standard deviations that hold 90 % of a normal distribution
SIGMA = 1.4826  # of a normal distribution, in median deviations


@dataclass(frozen=True)
class Interval:
    """A number and its 90 % interval."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Scenario:
    """One way to run the job: on so many machines, with this exchange.

    `step` is a usual update, neither of the warm-up nor a closing one; `course` is the whole
    run. `hosts` are the names of the machines unless these are all.
    """

    machines: int
    exchange: Exchange
    step: StepCost
    seconds: Interval
    course: RunCost
    hours: float
    money: float
    speedup: float
    bucket_mb: float = USUAL_BUCKET_MB
    stop: str = ""
    hosts: tuple[str, ...] = ()

    @property
    def kind(self) -> tuple[str, int]:
        """Return what the exchange is called on any number of machines."""
        return self.exchange.strategy, self.exchange.bits

    @property
    def update_seconds(self) -> float:
        """Return the mean time of an update over the whole run, if its end is known."""
        return _for_each(self.course, self.step)

    @property
    def waiting(self) -> float:
        """Return the share of the run, or of a step, that is spent waiting for the network."""
        return _waiting(self.course, self.step)


def scenario_of(
    measured: ProbeResults,
    rounds: Sequence[Round],
    exchange: Exchange,
    price: float,
    alone: Scenario | None = None,
    on: Sequence[int] = (),
) -> Scenario:
    """Return one way on all machines, or on some, compared with one `alone`."""
    bucket_mb = _bucket_for(measured, rounds, exchange, on)
    steps = [step_in(measured, one, exchange, bucket_mb, on) for one in rounds]
    step = _middle(steps)
    link = middle_of(rounds).link
    opening = _opening(measured, rounds, exchange, bucket_mb, on)
    course = run_cost_of(measured, exchange, step, link, opening, on)
    machines = len(on) or measured.machines
    hours = course.seconds / SECONDS_PER_HOUR if course.updates else 0.0
    speedup = alone.update_seconds / _for_each(course, step) if alone else 1.0
    return Scenario(
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
    measured: ProbeResults, rounds: Sequence[Round], exchange: Exchange, on: Sequence[int]
) -> float:
    """Return the size of buckets: as set, or with "auto" the best, or else the usual."""
    if measured.job.bucket_mb or measured.job.strategy != AUTO:
        return measured.job.bucket_mb or USUAL_BUCKET_MB
    return best_bucket(measured, rounds, exchange, on)


def _opening(
    measured: ProbeResults,
    rounds: Sequence[Round],
    exchange: Exchange,
    bucket_mb: float,
    on: Sequence[int],
) -> StepCost | None:
    """Return an update of the warm-up, if the strategy has one."""
    if not STRATEGIES[exchange.strategy].warm_up:
        return None
    first = replace(exchange, every=1, local=False)
    if not exchange.local:
        cluster = cluster_of(measured, rounds[0].link, on)
        first = exact_exchange(measured.job.parameters, cluster)
    return _middle([step_in(measured, one, first, bucket_mb, on) for one in rounds])


def _middle(steps: Sequence[StepCost]) -> StepCost:
    return sorted(steps, key=lambda one: one.seconds)[len(steps) // 2]


def _for_each(course: RunCost, step: StepCost) -> float:
    return course.seconds / course.updates if course.updates else step.seconds


def _waiting(course: RunCost, step: StepCost) -> float:
    if not course.updates or course.seconds <= 0:
        return step.waiting
    return course.waiting_seconds / course.seconds


def _interval(values: Sequence[float]) -> Interval:
    middle = median(values)
    spread = SIGMA * median(abs(value - middle) for value in values)
    half = math.hypot(LEFT_OUT * middle, NINETY * spread * math.sqrt(1 + 1 / len(values)))
    return Interval(max(0.0, middle - half), middle, middle + half)


WORTH_A_STEP = 0.01  # the least that twice as many local steps must gain


@dataclass(frozen=True)
class Scenarios:
    """The ways on so many machines, the exact one first; the configured one, and the best."""

    machines: int
    ways: tuple[Scenario, ...]
    chosen: Scenario
    best: Scenario

    @property
    def exact(self) -> Scenario:
        """Return the way that changes nothing about the updates."""
        return self.ways[0]


def each_alone(
    measured: ProbeResults, rounds: Sequence[Round], price: float
) -> dict[int, Scenario]:
    """Return each machine by itself, the fastest first: they may differ."""
    ways = {}
    for number in range(measured.machines):
        cluster = cluster_of(measured, rounds[0].link, [number])
        exchange = exact_exchange(measured.job.parameters, cluster)
        ways[number] = scenario_of(measured, rounds, exchange, price, on=[number])
    return dict(sorted(ways.items(), key=lambda item: item[1].update_seconds))


def scenarios_on(
    measured: ProbeResults,
    rounds: Sequence[Round],
    price: float,
    alone: Scenario,
    on: Sequence[int] = (),
) -> Scenarios:
    """Return the ways on all machines, or on those with these numbers."""
    link = middle_link(rounds)
    cluster = cluster_of(measured, link, on)
    works = [work_on(measured, one, on) for one in rounds]
    # An exchange has to end before the next begins, even if an update was short.
    quickest = min(works, key=lambda work: work.seconds)
    ways = [
        scenario_of(measured, rounds, exchange, price, alone, on)
        for exchange in _exchanges(measured, cluster, quickest)
    ]
    losses = _Losses(rounds, sorted(works, key=lambda work: work.seconds)[len(works) // 2])
    if not is_local(measured.job.strategy):  # nobody asked for a number of local steps
        ways = [
            _rarer(measured, rounds, losses, ways, way, alone, price, on)
            if way.exchange.local
            else way
            for way in ways
        ]
    asked = configured_exchange(measured.job, cluster)
    usual = [way for way in ways if way.exchange == asked or _may_advise(way.exchange)]
    best = losses.least_drastic(usual)
    chosen = next((way for way in ways if way.exchange == asked), ways[0])
    chosen = best if measured.job.strategy == AUTO else chosen
    return Scenarios(cluster.nodes, tuple(ways), chosen, best)


def middle_link(rounds: Sequence[Round]) -> Link:
    """Return the median link."""
    return Link(median(one.link.bytes_per_second for one in rounds), rounds[0].link.latency)


def _exchanges(measured: ProbeResults, cluster: Cluster, work: ComputeTimes) -> list[Exchange]:
    """Return the exchanges to compare, the configured one among them."""
    job = measured.job
    exact, *others = choices(job.parameters, cluster, work, job.low_rank_numbers)
    asked = configured_exchange(job, cluster)
    if asked is None or asked in (exact, *others):
        return [exact, *others]
    if asked.exact:
        return [asked, *others]
    return [exact, *others, asked] if cluster.nodes > 1 else [exact]


def _may_advise(exchange: Exchange) -> bool:
    facts = STRATEGIES[exchange.strategy]
    return facts.automatic or facts.exact


@dataclass(frozen=True)
class _Losses:
    """The time that ways lose to the network and to quantizing, for updates of `usual` work."""

    rounds: Sequence[Round]
    usual: ComputeTimes

    def of(self, ways: Sequence[Scenario]) -> list[float]:
        """Return the share of the time that each way loses.

        The reference is an exact exchange over an unlimited network, or the fastest way.
        """
        # Over a slow network a byte takes more CPU time than over a fast one.
        toll = min(middle_of(self.rounds).toll, FREE_TOLL)
        free = self.usual.seconds + toll * ways[0].exchange.card_bytes
        ideal = min(free, *(way.step.seconds for way in ways))
        return [1 - ideal / way.step.seconds if way.step.seconds > 0 else 0.0 for way in ways]

    def least_drastic(self, ways: Sequence[Scenario]) -> Scenario:
        """Return the one to take."""
        options = [
            Option(way.update_seconds, lost, way.exchange.local)
            for way, lost in zip(ways, self.of(ways), strict=True)
        ]
        return ways[least_drastic(options)]


def _rarer(
    measured: ProbeResults,
    rounds: Sequence[Round],
    losses: _Losses,
    ways: Sequence[Scenario],
    way: Scenario,
    alone: Scenario,
    price: float,
    on: Sequence[int],
) -> Scenario:
    """Return a `way` with local steps, with more of them until quantizing costs little."""
    job = measured.job
    facts = STRATEGIES[way.exchange.strategy]
    cluster = cluster_of(measured, middle_link(rounds), on)
    while losses.of([*ways, way])[-1] >= HIDDEN:
        every, bits = 2 * way.exchange.every, way.exchange.bits
        if every > MOST_LOCAL_STEPS:
            break
        twice = exchange_by(facts, job.parameters, cluster, bits=bits, every=every)
        rarer = scenario_of(measured, rounds, twice, price, alone, on)
        if rarer.step.seconds > (1 - WORTH_A_STEP) * way.step.seconds:
            break
        way = rarer
    return way
