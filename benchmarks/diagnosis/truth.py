"""What a fault really costs, found out without asking the diagnosis.

A run with a fault has a twin without it: the same seed, so the same updates of the same
sentences, on the same machines. What the updates of the one take longer than those of the other
is what the fault costs, and the share is that time over the wall clock of the run. The clock is
that of the moments at which updates ended; no part of the ledger is looked at. Cores are not
equally fast at all times, least of all rented ones. So the twin's time is scaled by the
time that a position took or wanted a core in the two runs, as the kernel counts it
(`/proc/*/schedstat`, the thread that trains; only on ranks whose core is not the fault).

The twin of a run with a slow link has no exchange at all: its gradients stay where they are
(`no_exchange` in inside/worker.py). Evaluations and checkpoints were timed from outside, and
padding was counted in the tensors.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from diagnosis.course import Course, Outcome, make_run

NO_NETWORK: Mapping[str, Any] = {"no_exchange": {}}


@dataclass
class Twins:
    """Runs without a fault, each made once."""

    home: Path
    seed: int
    _made: dict[str, Outcome] = field(default_factory=dict)

    def healthy(self, course: Course) -> Outcome:
        """Return the same run with nothing done to it."""
        return self._twin(course, {})

    def without_network(self, course: Course) -> Outcome:
        """Return the same run with a network that takes no time."""
        return self._twin(course, NO_NETWORK)

    def longer(self, course: Course, factor: float) -> Outcome:
        """Return the same run, only longer."""
        return self._make(replace(course, steps=round(factor * course.steps)))

    def _twin(self, course: Course, faults: Mapping[str, Any]) -> Outcome:
        usual = Course()
        twin = Course(
            steps=max(usual.steps, course.steps),
            nodes=course.nodes,
            workers=course.workers,
            corpus=course.corpus,
            tables={n: t for n, t in course.tables.items() if n != "sync"},
            faults=faults,
        )
        return self._make(twin)

    def _make(self, course: Course) -> Outcome:
        made_of = (course.steps, course.nodes, course.workers, course.tables, course.faults)
        key = repr((*made_of, course.corpus))
        if key not in self._made:
            name = f"twin-{len(self._made)}-{self.seed}"
            self._made[key] = make_run(course, self.home, name, self.seed)
        return self._made[key]


Truth = Callable[[Outcome, Course, Twins], float]


def against_no_network(outcome: Outcome, course: Course, twins: Twins) -> float:
    """Return the share of the time that goes away with the exchange."""
    return cost(outcome, twins.without_network(course))


def against_idle_core(outcome: Outcome, course: Course, twins: Twins) -> float:
    """Return the share of the time that goes away with what befell the core of rank 1."""
    return cost(outcome, twins.healthy(course), ranks=(0,))


def against_idle_machine(outcome: Outcome, course: Course, twins: Twins) -> float:
    """Return the share of the time that goes away with what befell both ranks of node1."""
    return cost(outcome, twins.healthy(course), ranks=(0, 1))


def against_healthy(outcome: Outcome, course: Course, twins: Twins) -> float:
    """Return the share of the time that goes away with the fault."""
    return cost(outcome, twins.healthy(course))


def cost(outcome: Outcome, twin: Outcome, ranks: Collection[int] = (0, 1)) -> float:
    """Return what a run takes longer than its twin for the same updates, as a share."""
    steps = min(len(outcome.view.steps), len(twin.view.steps))
    slower = outcome.core_seconds(ranks, steps) / twin.core_seconds(ranks, steps)
    return (outcome.seconds_of(steps) - slower * twin.seconds_of(steps)) / outcome.wall


def by_journal(outcome: Outcome, course: Course, twins: Twins) -> float:
    """Return the share of the calls that were timed from outside, on rank 0."""
    return sum(entry.get("seconds", 0.0) for entry in outcome.journal) / outcome.wall


def counted_padding(outcome: Outcome, course: Course, twins: Twins) -> float:
    """Return the share of padding in the tensors."""
    counted = [entry for entry in outcome.journal if "padding" in entry]
    return sum(e["padding"] for e in counted) / sum(e["positions"] for e in counted)


def claimed(outcome: Outcome) -> float:
    """Return the share of the time that the report says would go away with the cause.

    For a late rank that is more than the mean over the ranks, one of which does not wait.
    """
    bottleneck = outcome.report.bottleneck
    without = bottleneck.without_it_seconds_per_step
    if bottleneck.cause != "straggler" or without is None:
        return bottleneck.share
    steps = outcome.view.steps
    return (fmean(step.seconds for step in steps) - without) * len(steps) / outcome.wall
