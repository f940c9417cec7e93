"""How long a run takes, and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.physics.step import Step

SECONDS_PER_HOUR = 3600
HIDDEN = 0.04  # losing less than this is hardly worth a change
MUCH = 0.30  # of the time spent waiting for the network: too much to pay for
WORTH_GOING_APART = 0.10  # what weights that differ for a while must gain at least


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


def why_not(machines: int, speedup: float, waiting: float, fewer: int = 1) -> str:
    """Return why not to train on many machines, or "" if nothing speaks against it.

    `speedup` is that over so many `fewer`, `waiting` the share of the time for the network.
    """
    if machines > fewer and speedup <= 1:
        than, whose = ("one", "its") if fewer == 1 else (str(fewer), "their")
        return f"{machines} machines are slower than {than}: {speedup:.2f} times {whose} speed"
    if machines > 1 and waiting > MUCH:
        return f"{waiting:.0%} of the time would be spent waiting for the network"
    return ""


@dataclass(frozen=True)
class Option:
    """One way to exchange: seconds, all told, and the share of a step that is lost.

    With some ways the weights of machines go `apart` for a while.
    """

    seconds: float
    lost: float
    apart: bool


def least_drastic(options: Sequence[Option]) -> int:
    """Return which of the ways to take: the first that loses next to nothing, or the fastest.

    The exact way comes first. One that loses something in every step is better than a later
    one that is no faster all told. Weights go apart only where that gains much.
    """
    places = range(len(options))
    fastest = min(places, key=lambda place: options[place].seconds)
    best = next((place for place in places if options[place].lost < HIDDEN), fastest)
    best = next(p for p in places if options[p].seconds <= options[best].seconds)
    staying = [place for place in places if not options[place].apart]
    if not options[best].apart or not staying:
        return best
    together = min(staying, key=lambda place: options[place].seconds)
    worth = (1 - WORTH_GOING_APART) * options[together].seconds
    return best if options[best].seconds <= worth else together
