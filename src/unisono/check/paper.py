"""A run on machines one does not have: `unisono simulate`.

Everything follows from `physics` and a few numbers about the model and the machines. As
everywhere in Unisono, an update sees the same number of tokens on one device or on sixteen:
more devices have less to compute each, and as much to exchange.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unisono.models.settings import TransformerSettings
from unisono.models.size import parameter_count, training_flops
from unisono.physics.bill import Bill, Option, bill_for, least_drastic, why_not
from unisono.physics.cluster import Cluster, choices, step_on
from unisono.physics.exchange import Exchange
from unisono.physics.link import Link
from unisono.physics.step import Work

OPTIMIZER_SHARE = 0.02  # of the computing; assumed, like the share of a device's peak


@dataclass(frozen=True)
class Job:
    """What is to be trained, and how fast a device computes."""

    model: TransformerSettings
    vocabulary: int
    tokens_per_update: int
    length: float
    flops_per_second: float
    updates: int
    price: float = 0.0

    @property
    def parameters(self) -> int:
        """Return the number of weights."""
        return parameter_count(self.model, self.vocabulary)

    @property
    def sentences(self) -> float:
        """Return the sentences of one update."""
        return self.tokens_per_update / self.length

    def work(self, devices: int) -> Work:
        """Return what each of `devices` computes in one update."""
        flops = training_flops(self.model, self.vocabulary, 1, self.length, self.length)
        seconds = flops * self.sentences / devices / self.flops_per_second
        return Work(seconds / 3, seconds * 2 / 3, optimizer=seconds * OPTIMIZER_SHARE)


@dataclass(frozen=True)
class Line:
    """One way to run the job on some machines."""

    bill: Bill
    exchange: Exchange
    speedup: float
    warning: str


@dataclass(frozen=True)
class Outlook:
    """All ways on so many machines: the exact one, and the one to take.

    `fewer` are as fast, each number with the exchange that suits it; 0 if none is.
    """

    nodes: int
    lines: tuple[Line, ...]
    fewer: int = 0

    @property
    def exact(self) -> Line:
        """Return the way that changes nothing about the updates."""
        return self.lines[0]

    @property
    def advised(self) -> Line:
        """Return the one to take: see `least_drastic`."""
        steps = [line.bill.step for line in self.lines]
        options = [
            Option(step.seconds, step.waiting, line.exchange.behind)
            for step, line in zip(steps, self.lines, strict=True)
        ]
        return self.lines[least_drastic(options)]


def outlooks(job: Job, nodes: Sequence[int], devices: int, link: Link) -> list[Outlook]:
    """Return what each number of machines with `devices` each would make of the job.

    Each is compared with one machine, and with every smaller number that was asked about.
    """
    one = _lines(job, Cluster(1, devices, link), None)[0]
    found: dict[int, Outlook] = {}
    for count in sorted(set(nodes)):
        lines = tuple(_lines(job, Cluster(count, devices, link), one.bill))
        found[count] = _compared(Outlook(count, lines), list(found.values()))
    return [found[count] for count in nodes]


def _compared(outlook: Outlook, smaller: Sequence[Outlook]) -> Outlook:
    """Return an outlook that knows where fewer machines would do."""
    lines = tuple(_warned(outlook.nodes, line, smaller) for line in outlook.lines)
    best = max(smaller, key=lambda one: one.advised.speedup, default=outlook)
    fewer = best.nodes if best.advised.speedup >= outlook.advised.speedup else 0
    return replace(outlook, lines=lines, fewer=fewer if best is not outlook else 0)


def _warned(nodes: int, line: Line, smaller: Sequence[Outlook]) -> Line:
    """Return a line that warns if fewer machines do better with an exchange of the kind."""
    kind = line.exchange.strategy, line.exchange.bits
    same = {
        outlook.nodes: other.speedup
        for outlook in smaller
        for other in outlook.lines
        if (other.exchange.strategy, other.exchange.bits) == kind
    }
    fewer = max(same, key=lambda count: same[count], default=0)
    if line.speedup <= 1 or not fewer or line.speedup > same[fewer]:
        return line
    return replace(line, warning=why_not(nodes, line.speedup / same[fewer], 0.0, fewer))


def _lines(job: Job, cluster: Cluster, one: Bill | None) -> list[Line]:
    work = job.work(cluster.ranks)
    lines = []
    for exchange in choices(job.parameters, cluster, work):
        step = step_on(cluster, work, exchange, job.parameters)
        bill = bill_for(
            step,
            nodes=cluster.nodes,
            sentences_per_step=job.sentences,
            sentences=job.sentences * job.updates,
            price=job.price,
        )
        alone = one or bill
        speedup = bill.sentences_per_second / alone.sentences_per_second
        lines.append(Line(bill, exchange, speedup, why_not(bill.nodes, speedup, step.waiting)))
    return lines
