"""How long a run takes, and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.physics.step import Step

SECONDS_PER_HOUR = 3600
HIDDEN = 0.04  # losing less than this is hardly worth a change
MUCH = 0.30  # of the time spent waiting for the network: too much to pay for


@dataclass(frozen=True)
class Bill:
    """A whole run on some machines."""

    nodes: int
    step: Step
    updates: float
    sentences_per_second: float
    price: float = 0.0

    @property
    def hours(self) -> float:
        """Return the length of the run."""
        return self.updates * self.step.seconds / SECONDS_PER_HOUR

    @property
    def money(self) -> float:
        """Return the price of all machines, in what `price` of a machine's hour is in."""
        return self.hours * self.nodes * self.price


def bill_for(
    step: Step, *, nodes: int, sentences_per_step: float, sentences: float, price: float = 0.0
) -> Bill:
    """Return the bill for going through `sentences`, so many in a step of all machines.

    Runs on fewer machines are compared at equal sentences seen, not at equal updates.
    """
    rate = sentences_per_step / step.seconds
    return Bill(nodes, step, sentences / sentences_per_step, rate, price)


def why_not(machines: int, speedup: float, waiting: float) -> str:
    """Return why not to train on many machines, or "" if nothing speaks against it.

    `speedup` is that over one machine, `waiting` the share of the time for the network.
    """
    if machines > 1 and speedup <= 1:
        return f"{machines} machines are slower than one: {speedup:.2f} times its speed"
    if machines > 1 and waiting > MUCH:
        return f"{waiting:.0%} of the time would be spent waiting for the network"
    return ""


def least_drastic(losses: Sequence[float], speeds: Sequence[float]) -> int:
    """Return which of the ways, the exact one first, loses next to nothing; or the fastest.

    Losses are shares of the time.
    """
    hidden = [number for number, loss in enumerate(losses) if loss < HIDDEN]
    return hidden[0] if hidden else max(range(len(speeds)), key=speeds.__getitem__)
