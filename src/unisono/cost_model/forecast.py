"""What a run will take, from what probes found, or from figures that `simulate` assumes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from unisono.cost_model.exchange import Link
from unisono.cost_model.notes import notes_of, notes_of_run
from unisono.cost_model.probe_results import ProbeResults
from unisono.cost_model.probe_rounds import ProbedMachines
from unisono.cost_model.run_cost import why_not
from unisono.cost_model.scenarios import (
    Scenario,
    Scenarios,
    each_alone,
    scenario_of,
    scenarios_on,
)
from unisono.cost_model.step import ComputeTimes
from unisono.cost_model.strategies import AUTO

WORTH_A_NOTE = 0.03


@dataclass(frozen=True)
class Forecast:
    """What to expect of a run, on each number of machines from one to all.

    Fewer than all are the fastest ones. `alone` is the fastest machine by itself.
    """

    measured: ProbeResults
    work: ComputeTimes
    link: Link
    alone: Scenario
    by_machines: tuple[Scenarios, ...]

    @property
    def ways(self) -> tuple[Scenario, ...]:
        """Return all ways on all machines."""
        return self.by_machines[-1].ways

    @property
    def chosen(self) -> Scenario:
        """Return the configured way on all machines."""
        return self.by_machines[-1].chosen

    @property
    def fewer(self) -> tuple[Scenario, ...]:
        """Return the configured way on more than one machine and fewer than all."""
        return tuple(some.chosen for some in self.by_machines[1:-1])

    @property
    def advised(self) -> Scenario:
        """Return the fastest of the best ways; of equally fast ones, on the fewest machines."""
        return max((some.best for some in self.by_machines), key=lambda way: way.speedup)

    @property
    def strategy(self) -> str:
        """Return what `sync.strategy` is, or what "auto" comes to."""
        strategy = self.measured.job.strategy
        return self.chosen.exchange.strategy if strategy == AUTO else strategy

    @property
    def stop(self) -> str:
        """Return why not to train like this, or ""."""
        return self.chosen.stop

    def enough(self, some: Scenarios) -> int:
        """Return the smaller number of machines that is as fast, or 0 if none is."""
        smaller = [one for one in self.by_machines if one.machines < some.machines]
        best = max(smaller, key=lambda one: one.best.speedup, default=None)
        as_fast = best is not None and best.best.speedup >= some.best.speedup
        return best.machines if best is not None and as_fast else 0

    @cached_property
    def notes(self) -> tuple[str, ...]:
        return (
            *notes_of(self.measured, self.strategy),
            *notes_of_run(self.measured, self.chosen),
            *_about_buckets(self.measured, self.chosen),
        )


def forecast(
    measured: ProbeResults, price: float = 0.0, smaller: Sequence[ProbeResults] = ()
) -> Forecast:
    """Return what the run will take; `price` is that of one machine for one hour.

    `smaller` are the results of probes on fewer machines, the first on one. Without them,
    fewer machines share the work that was measured on all.
    """
    everything = ProbedMachines(measured)
    if smaller:
        first, *others = map(ProbedMachines, smaller)
        alone = scenario_of(first, first.exact_exchange(), price)
        fewer = [scenarios_on(one, price, alone) for one in others]
    else:
        by_speed = each_alone(measured, price)
        alone = next(iter(by_speed.values()))
        fewer = [
            scenarios_on(ProbedMachines(measured, numbers), price, alone)
            for count in range(2, measured.machines)
            for numbers in [tuple(sorted(list(by_speed)[:count]))]
        ]
    groups = [*fewer, scenarios_on(everything, price, alone)]
    if measured.machines > 1:
        groups.insert(0, Scenarios(1, (alone,), alone, alone))
    return Forecast(
        measured=measured,
        work=everything.middle.work,
        link=everything.link,
        alone=alone,
        by_machines=_compared(groups),
    )


def _compared(groups: Sequence[Scenarios]) -> tuple[Scenarios, ...]:
    """Return the scenarios, with a reason to stop where fewer machines would be faster.

    The configured way is compared with the configured ones, any other with those of its kind.
    """
    done: list[Scenarios] = []
    for group in groups:
        judged = {}
        for way in group.ways:
            same = [other for one in done for other in one.ways if other.kind == way.kind]
            configured = [one.chosen for one in done]
            judged[id(way)] = _judged(way, configured if way is group.chosen else same)
        ways = tuple(judged.values())
        chosen, best = judged[id(group.chosen)], judged[id(group.best)]
        done.append(replace(group, ways=ways, chosen=chosen, best=best))
    return tuple(done)


def _judged(way: Scenario, smaller: Sequence[Scenario]) -> Scenario:
    best = max(smaller, key=lambda one: one.speedup, default=way)
    if best is way or way.speedup <= 1:  # there is a reason already, if any
        return way
    reason = why_not(way.machines, way.speedup / best.speedup, way.waiting, best.machines)
    return replace(way, stop=reason)


def _about_buckets(measured: ProbeResults, chosen: Scenario) -> list[str]:
    """Return that other buckets would do better, unless somebody wants these."""
    if measured.job.bucket_mb or measured.job.strategy == AUTO or chosen.machines == 1:
        return []
    machines = ProbedMachines(measured)
    better = machines.best_bucket(chosen.exchange)
    steps = machines.steps(chosen.exchange, better)
    gain = 1 - median(step.seconds for step in steps) / chosen.seconds.middle
    if gain < WORTH_A_NOTE:
        return []
    return [f"with `sync.bucket_mb = {better:g}` a step would be {gain:.0%} shorter"]
