"""What a whole run takes, when not to start it, and which exchange to take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from unisono.cost_model.exchange import (
    BYTES_PER_FLOAT32,
    FEW_MACHINES,
    Exchange,
    agreement_bytes,
    ring_bytes,
)
from unisono.cost_model.probe_results import TrainingJob
from unisono.cost_model.probe_rounds import ProbedMachines
from unisono.cost_model.step import StepCost


@dataclass(frozen=True)
class RunCost:
    """What a run of so many updates takes in all, and how much of that is waiting.

    `together` counts the warm-up and closing updates, which take `together_seconds` each.
    Machines with local updates make all weights the same `meetings` times, which takes
    `meeting_seconds` each time.
    """

    updates: int
    seconds: float
    waiting_seconds: float
    together: int = 0
    together_seconds: float = 0.0
    meetings: int = 0
    meeting_seconds: float = 0.0


def run_cost_of(
    machines: ProbedMachines,
    exchange: Exchange,
    step: StepCost,
    opening: StepCost | None = None,
) -> RunCost:
    """Return a run with `exchange`; `opening` is a warm-up or closing update, if any."""
    measured, link = machines.measured, machines.middle.link
    job = measured.job
    made_together = job.warmup_steps + (job.closing_steps if exchange.local else 0)
    together = min(job.updates, made_together) if opening else 0
    first = opening or step
    meetings = _meetings(job) if exchange.local else 0
    count = len(machines.members)
    sent = agreement_bytes(job.parameters, count, averages=job.averages, phases=exchange.phases)
    each = link.seconds(sent)
    exposed = (job.updates - together) * step.exposed + together * first.exposed
    waiting = exposed + meetings * each + _saving(machines, exchange)
    computing = (job.updates - together) * step.computing + together * first.computing
    beside = job.evaluations * measured.evaluation_seconds * machines.larger_share
    beside += job.checkpoints * measured.checkpoint_seconds
    return RunCost(
        updates=job.updates,
        seconds=computing + waiting + beside,
        waiting_seconds=waiting,
        together=together,
        together_seconds=first.seconds,
        meetings=meetings,
        meeting_seconds=each,
    )


def _meetings(job: TrainingJob) -> int:
    """Return how often weights are made the same: for evaluations, checkpoints, the end."""
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


def _saving(machines: ProbedMachines, exchange: Exchange) -> float:
    """Return how long checkpoints wait for the residuals of other machines.

    Each process sends its own, four bytes a weight, to the leading one; the quantized ones of
    many machines are summed instead. Machines that make local updates have none.
    """
    job, members = machines.measured.job, machines.members
    if exchange.exact or len(members) == 1:
        return 0.0
    count = job.checkpoints
    if exchange.local:
        last = max(job.warmup_steps, job.updates - job.closing_steps)
        apart = _multiples(job.checkpoint_every, job.warmup_steps, last)
        apart += last == job.updates and job.updates % max(1, job.checkpoint_every) > 0
        count -= apart
    theirs = sum(map(len, members[1:])) * BYTES_PER_FLOAT32 * job.parameters
    if len(members) > FEW_MACHINES and not exchange.low_rank:
        theirs = ring_bytes(job.parameters, len(members))
    return count * machines.middle.link.seconds(theirs)


SECONDS_PER_HOUR = 3600
HIDDEN = 0.04  # a smaller loss is hardly worth a change
MUCH_WAITING = 0.30  # of the time: too much to pay for
WORTH_GOING_APART = 0.10  # the least that local updates must gain
BY_FAR = 1.10  # times the seconds of the fastest way are too many


def why_not(machines: int, speedup: float, waiting: float, fewer: int = 1) -> str:
    """Return why not to train on many machines, or "".

    `speedup` is relative to so many `fewer`, `waiting` the share of time spent on the network.
    """
    if machines > fewer and speedup <= 1:
        than, whose = ("one", "its") if fewer == 1 else (str(fewer), "their")
        return f"{machines} machines are slower than {than}: {speedup:.2f} times {whose} speed"
    if machines > 1 and waiting > MUCH_WAITING:
        return f"{waiting:.0%} of the time would be spent waiting for the network"
    return ""


@dataclass(frozen=True)
class Option:
    """One way to exchange: mean seconds of an update, and the share of a step that is lost.

    With local updates the weights of machines go `apart` for a while.
    """

    seconds: float
    lost: float
    apart: bool


def least_drastic(options: Sequence[Option]) -> int:
    """Return which way to take: the first that loses next to nothing, or the fastest.

    The exact way comes first. A way that loses something in every step is better than a later
    one whose run is no shorter, unless a third one is shorter by far. Weights go apart only if
    that gains much.
    """
    places = range(len(options))
    fastest = min(places, key=lambda place: options[place].seconds)
    best = next((place for place in places if options[place].lost < HIDDEN), fastest)
    longest = min(options[best].seconds, BY_FAR * options[fastest].seconds)
    best = next(p for p in places if options[p].seconds <= longest)
    staying = [place for place in places if not options[place].apart]
    if not options[best].apart or not staying:
        return best
    together = min(staying, key=lambda place: options[place].seconds)
    worth = (1 - WORTH_GOING_APART) * options[together].seconds
    return best if options[best].seconds <= worth else together
