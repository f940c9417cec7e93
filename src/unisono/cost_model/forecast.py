"""From what the probes found to what a run will take: the physics, fed with measurements."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from unisono.cost_model.exchange import Link
from unisono.cost_model.notes import notes_of, notes_of_run
from unisono.cost_model.probe_results import ProbeResults
from unisono.cost_model.probe_rounds import Round, best_bucket, middle_of, rounds_of, step_in
from unisono.cost_model.run_cost import why_not
from unisono.cost_model.scenarios import Scenario, each_alone, middle_link, scenarios_on
from unisono.cost_model.step import ComputeTimes
from unisono.cost_model.strategies import AUTO

WORTH_A_NOTE = 0.03


@dataclass(frozen=True)
class Forecast:
    """What to expect: the way that is configured, all others, and fewer machines.

    `fewer` has the configured way on two machines, on three and so on, always on the fastest.
    """

    measured: ProbeResults
    work: ComputeTimes
    link: Link
    ways: tuple[Scenario, ...]
    alone: Scenario
    fewer: tuple[Scenario, ...]
    chosen: Scenario
    advised: Scenario
    notes: tuple[str, ...]

    @property
    def strategy(self) -> str:
        """Return what `sync.strategy` is, or what "auto" comes to."""
        return strategy_used(self.measured, self.chosen)

    @property
    def stop(self) -> str:
        """Return why not to train like this, or ""."""
        return self.chosen.stop


def forecast(measured: ProbeResults, price: float = 0.0) -> Forecast:
    """Return what the run will take; `price` is that of a machine's hour."""
    rounds = rounds_of(measured)
    by_speed = each_alone(measured, rounds, price)
    alone = next(iter(by_speed.values()))
    every = scenarios_on(measured, rounds, price, alone)
    fewer = [
        scenarios_on(measured, rounds, price, alone, sorted(list(by_speed)[:count]))
        for count in range(2, measured.machines)
    ]
    chosen = _compared(every.chosen, [ways.chosen for ways in fewer])
    # Of those that are as fast as each other, the one on the fewest machines.
    advised = max((alone, *(w.best for w in fewer), every.best), key=lambda way: way.speedup)
    if every.best.machines == 1:
        advised = every.best
    return Forecast(
        measured=measured,
        work=middle_of(rounds).work,
        link=middle_link(rounds),
        ways=tuple(chosen if way is every.chosen else way for way in every.all),
        alone=alone,
        fewer=tuple(ways.chosen for ways in fewer),
        chosen=chosen,
        advised=chosen if advised is every.chosen else advised,
        notes=(
            *notes_of(measured, strategy_used(measured, chosen)),
            *notes_of_run(measured, chosen),
            *_about_buckets(measured, rounds, chosen),
        ),
    )


def strategy_used(measured: ProbeResults, chosen: Scenario) -> str:
    """Return what `sync.strategy` is, or what it comes to."""
    strategy = measured.job.strategy
    return chosen.exchange.strategy if strategy == AUTO else strategy


def _compared(way: Scenario, fewer: Sequence[Scenario]) -> Scenario:
    """Return the way on all machines, with a reason to stop if fewer would be faster."""
    best = max(fewer, key=lambda one: one.speedup, default=way)
    if best is way or way.speedup <= 1:  # there is a reason already, if any
        return way
    reason = why_not(way.machines, way.speedup / best.speedup, way.waiting, best.machines)
    return replace(way, stop=reason)


def _about_buckets(
    measured: ProbeResults, rounds: Sequence[Round], chosen: Scenario
) -> list[str]:
    """Return that other buckets would do better, unless somebody wants these."""
    if measured.job.bucket_mb or measured.job.strategy == AUTO or chosen.machines == 1:
        return []
    better = best_bucket(measured, rounds, chosen.exchange)
    steps = [step_in(measured, one, chosen.exchange, better) for one in rounds]
    gain = 1 - median(step.seconds for step in steps) / chosen.seconds.middle
    if gain < WORTH_A_NOTE:
        return []
    return [f"with `sync.bucket_mb = {better:g}` a step would be {gain:.0%} shorter"]
