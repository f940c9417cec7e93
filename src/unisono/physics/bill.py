"""How long a run takes, and what it costs."""

from dataclasses import dataclass

from unisono.physics.step import Step

SECONDS_PER_HOUR = 3600
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


def should_stop(many: Bill, one: Bill) -> str:
    """Return why not to train on many machines, or "" if nothing speaks against it."""
    if many.nodes > one.nodes and many.sentences_per_second <= one.sentences_per_second:
        ratio = many.sentences_per_second / one.sentences_per_second
        return f"{many.nodes} machines are slower than one: {ratio:.2f} times its speed"
    if many.step.waiting > MUCH:
        return f"{many.step.waiting:.0%} of the time is spent waiting for the network"
    return ""
