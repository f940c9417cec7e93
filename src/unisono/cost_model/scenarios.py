"""All ways to run a job on some machines: what each takes, which is configured, which is best.

A way is a scenario: a number of machines and an exchange.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from unisono.cost_model import run_cost
from unisono.cost_model.cluster import (
    MOST_LOCAL_STEPS,
    Cluster,
    choices,
    configured_exchange,
    exchange_by,
)
from unisono.cost_model.exchange import Exchange, usual_phases
from unisono.cost_model.probe_results import ProbeResults, TrainingJob
from unisono.cost_model.probe_rounds import FREE_TOLL, ProbedMachines
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

    `step` is a usual update of so many `tokens`, neither of the warm-up nor a closing one;
    `course` is the whole run. `hosts` are the names of the machines unless these are all.
    """

    machines: int
    exchange: Exchange
    step: StepCost
    seconds: Interval
    course: run_cost.RunCost
    hours: float
    money: float
    speedup: float
    tokens: float = 0.0
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
    machines: ProbedMachines, exchange: Exchange, price: float, alone: Scenario | None = None
) -> Scenario:
    """Return one way to train on these machines, compared with one machine `alone`."""
    bucket_mb = _bucket_for(machines, exchange)
    steps = machines.steps(exchange, bucket_mb)
    step, opening = _middle(steps), _opening(machines, exchange, bucket_mb)
    course = run_cost.run_cost_of(machines, exchange, step, opening)
    count = len(machines.members)
    hours = course.seconds / run_cost.SECONDS_PER_HOUR if course.updates else 0.0
    tokens = machines.measured.job.tokens_per_update
    speedup = _speedup(tokens / _for_each(course, step), alone) if alone else 1.0
    return Scenario(
        machines=count,
        exchange=exchange,
        step=step,
        seconds=_interval([one.seconds for one in steps]),
        course=course,
        hours=hours,
        money=hours * count * price,
        speedup=speedup,
        tokens=tokens,
        bucket_mb=bucket_mb,
        stop=run_cost.why_not(count, speedup, _waiting(course, step)),
        hosts=tuple(machines.measured.machine(number) for number in machines.on),
    )


def _speedup(tokens_per_second: float, alone: Scenario) -> float:
    return tokens_per_second / (alone.tokens / alone.update_seconds)


def _bucket_for(machines: ProbedMachines, exchange: Exchange) -> float:
    """Return the size of buckets: as set, or with "auto" the best, or else the usual."""
    job = machines.measured.job
    if job.bucket_mb or job.strategy != AUTO:
        return job.bucket_mb or USUAL_BUCKET_MB
    return machines.best_bucket(exchange)


def _opening(machines: ProbedMachines, exchange: Exchange, bucket_mb: float) -> StepCost | None:
    """Return an update of the warm-up, if the strategy has one."""
    if not STRATEGIES[exchange.strategy].warm_up:
        return None
    first = replace(exchange, every=1, local=False)
    first = first if exchange.local else machines.exact_exchange()
    return _middle(machines.steps(first, bucket_mb))


def _middle(steps: Sequence[StepCost]) -> StepCost:
    return sorted(steps, key=lambda one: one.seconds)[len(steps) // 2]


def _for_each(course: run_cost.RunCost, step: StepCost) -> float:
    return course.seconds / course.updates if course.updates else step.seconds


def _waiting(course: run_cost.RunCost, step: StepCost) -> float:
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


def each_alone(measured: ProbeResults, price: float) -> dict[int, Scenario]:
    """Return each machine by itself, the fastest first: they may differ."""
    ways = {}
    for number in range(measured.machines):
        machine = ProbedMachines(measured, (number,))
        ways[number] = scenario_of(machine, machine.exact_exchange(), price)
    return dict(sorted(ways.items(), key=lambda item: item[1].update_seconds))


def scenarios_on(machines: ProbedMachines, price: float, alone: Scenario) -> Scenarios:
    """Return the ways to train on these machines."""
    job, cluster = machines.measured.job, machines.cluster(machines.link)
    # An exchange has to end before the next begins, even if an update was short.
    works = sorted(map(machines.work, machines.rounds), key=lambda work: work.seconds)
    ways = [
        scenario_of(machines, exchange, price, alone)
        for exchange in _exchanges(job, cluster, works[0])
    ]
    losses = _Losses(machines.middle.toll, works[len(works) // 2])
    if not is_local(job.strategy):  # nobody asked for a number of local steps
        rarer = _MoreLocalSteps(machines, losses, ways, price, alone)
        ways = [rarer(way) if way.exchange.local else way for way in ways]
    asked = configured_exchange(job, cluster)
    usual = [way for way in ways if way.exchange == asked or _may_advise(way.exchange)]
    best = losses.least_drastic(usual)
    chosen = next((way for way in ways if way.exchange == asked), ways[0])
    chosen = best if job.strategy == AUTO else chosen
    return Scenarios(cluster.nodes, tuple(ways), chosen, best)


def _exchanges(job: TrainingJob, cluster: Cluster, work: ComputeTimes) -> list[Exchange]:
    """Return the exchanges to compare, the configured one among them."""
    # Only "auto" weighs latency; a strategy that was named takes the usual phases.
    usual = 0 if job.strategy == AUTO else usual_phases(cluster.senders)
    phases = job.phases or usual
    exact, *others = choices(job.parameters, cluster, work, job.low_rank_numbers, phases)
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

    toll: float
    usual: ComputeTimes

    def of(self, ways: Sequence[Scenario]) -> list[float]:
        """Return the share of the time that each way loses.

        The reference is an exact exchange over an unlimited network, or the fastest way.
        """
        # Over a slow network a byte takes more CPU time than over a fast one.
        free = self.usual.seconds + min(self.toll, FREE_TOLL) * ways[0].exchange.card_bytes
        ideal = min(free, *(way.step.seconds for way in ways))
        return [1 - ideal / way.step.seconds if way.step.seconds > 0 else 0.0 for way in ways]

    def least_drastic(self, ways: Sequence[Scenario]) -> Scenario:
        options = [
            run_cost.Option(way.update_seconds, lost, way.exchange.local)
            for way, lost in zip(ways, self.of(ways), strict=True)
        ]
        return ways[run_cost.least_drastic(options)]


@dataclass(frozen=True)
class _MoreLocalSteps:
    """Gives a way with local steps more of them until quantizing costs little."""

    machines: ProbedMachines
    losses: _Losses
    ways: Sequence[Scenario]
    price: float
    alone: Scenario

    def __call__(self, way: Scenario) -> Scenario:
        facts, parameters = (
            STRATEGIES[way.exchange.strategy],
            self.machines.measured.job.parameters,
        )
        cluster = self.machines.cluster(self.machines.link)
        while self.losses.of([*self.ways, way])[-1] >= run_cost.HIDDEN:
            every, bits = 2 * way.exchange.every, way.exchange.bits
            if every > MOST_LOCAL_STEPS:
                break
            twice = exchange_by(
                facts, parameters, cluster, bits=bits, every=every, phases=way.exchange.phases
            )
            rarer = scenario_of(self.machines, twice, self.price, self.alone)
            if rarer.step.seconds > (1 - WORTH_A_STEP) * way.step.seconds:
                break
            way = rarer
        return way
