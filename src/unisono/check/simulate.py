"""A run on machines one does not have: `unisono simulate`.

Everything follows from `physics` and a few numbers about the model and the machines. As
everywhere in Unisono, an update sees the same number of tokens on one device or on sixteen:
more devices have less to compute each, and as much to exchange. What an evaluation or a
checkpoint computes is not known on paper; that machines which went apart meet for it, is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unisono.cost_model.cluster import Cluster, choices, step_on
from unisono.cost_model.devices import FLOPS_PER_BYTE
from unisono.cost_model.exchange import Exchange, Link
from unisono.cost_model.probe_results import ProbeResults, Process, TrainingJob
from unisono.cost_model.run_cost import (
    Option,
    Price,
    RunCost,
    least_drastic,
    price_of,
    run_cost_of,
    why_not,
)
from unisono.cost_model.step import ComputeTimes, StepCost
from unisono.models.settings import TransformerSettings, parameter_count, training_flops

# Adam reads weight, gradient and two moments of four bytes each, and writes all but the
# gradient: memory is what that takes, on every device as much.
OPTIMIZER_BYTES = 28
# By which a device may be slower or faster than was assumed, without surprising anybody.
DOUBT = 0.20


@dataclass(frozen=True)
class SimulatedJob:
    """What is to be trained, and how fast a device computes."""

    model: TransformerSettings
    vocabulary: int
    tokens_per_update: int
    length: float
    flops_per_second: float
    updates: int
    price: float = 0.0
    evaluation_every: int = 0
    checkpoint_every: int = 0

    @property
    def parameters(self) -> int:
        """Return the number of weights."""
        return parameter_count(self.model, self.vocabulary)

    @property
    def sentences(self) -> float:
        """Return the sentences of one update."""
        return self.tokens_per_update / self.length

    def work(self, devices: int) -> ComputeTimes:
        """Return what each of `devices` computes in one update."""
        flops = training_flops(self.model, self.vocabulary, 1, self.length, self.length)
        seconds = flops * self.sentences / devices / self.flops_per_second
        memory_rate = self.flops_per_second / FLOPS_PER_BYTE
        optimizer = self.parameters * OPTIMIZER_BYTES / memory_rate
        return ComputeTimes(seconds / 3, seconds * 2 / 3, optimizer=optimizer)

    def on(self, cluster: Cluster) -> ProbeResults:
        """Return what probes would find on machines that one does not have."""
        plan = TrainingJob(
            parameters=self.parameters,
            tokens_per_update=self.tokens_per_update,
            sentences_per_update=self.sentences,
            updates=self.updates,
            evaluation_every=self.evaluation_every,
            checkpoint_every=self.checkpoint_every,
        )
        ranks = [divmod(rank, cluster.workers) for rank in range(cluster.ranks)]
        processes = [
            Process(rank, local_rank, f"node{node}", "cuda", 1, 1, 0, 0, 0)
            for rank, (node, local_rank) in enumerate(ranks)
        ]
        return ProbeResults(plan, tuple(processes))


@dataclass(frozen=True)
class Line:
    """One way to run the job on some machines.

    `step` is an update by itself. The `bill` is for updates with their share of the whole run.
    """

    step: StepCost
    course: RunCost
    bill: Price
    exchange: Exchange
    speedup: float
    warning: str

    @property
    def kind(self) -> tuple[str, int]:
        """Return what it is called on other numbers of machines too."""
        return self.exchange.strategy, self.exchange.bits


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
        options = [
            Option(line.bill.step.seconds, line.step.waiting, line.exchange.local)
            for line in self.lines
        ]
        return self.lines[least_drastic(options)]


def outlooks(
    job: SimulatedJob, nodes: Sequence[int], devices: int, link: Link
) -> list[Outlook]:
    """Return what one machine would make of the job, and each number of `nodes`.

    Each machine has so many `devices`. Each number is compared with one machine, and with
    every smaller one that was asked about.
    """
    one = _lines(job, Cluster(1, devices, link), None)
    found = [Outlook(1, tuple(one))]
    for count in sorted(set(nodes) - {1}):
        lines = tuple(_lines(job, Cluster(count, devices, link), one[0].bill))
        found.append(_compared(Outlook(count, lines), found))
    return found


def in_doubt(
    job: SimulatedJob, nodes: Sequence[int], devices: int, link: Link
) -> list[list[Outlook]]:
    """Return the outlooks if devices compute slower than was assumed, and if faster."""
    rates = [job.flops_per_second * factor for factor in (1 - DOUBT, 1 + DOUBT)]
    jobs = [replace(job, flops_per_second=rate) for rate in rates]
    return [outlooks(one, nodes, devices, link) for one in jobs]


def _compared(outlook: Outlook, smaller: Sequence[Outlook]) -> Outlook:
    """Return an outlook that knows where fewer machines would do."""
    lines = tuple(_warned(outlook.nodes, line, smaller) for line in outlook.lines)
    best = max(smaller, key=lambda one: one.advised.speedup)
    fewer = best.nodes if best.advised.speedup >= outlook.advised.speedup else 0
    return replace(outlook, lines=lines, fewer=fewer)


def _warned(nodes: int, line: Line, smaller: Sequence[Outlook]) -> Line:
    """Return a line that warns if fewer machines do better with an exchange of the kind."""
    same = {
        outlook.nodes: other.speedup
        for outlook in smaller
        for other in outlook.lines
        if other.kind == line.kind
    }
    fewer = max(same, key=lambda count: same[count], default=0)
    if line.speedup <= 1 or not fewer or line.speedup > same[fewer]:
        return line
    return replace(line, warning=why_not(nodes, line.speedup / same[fewer], 0.0, fewer))


def _lines(job: SimulatedJob, cluster: Cluster, one: Price | None) -> list[Line]:
    work, measured = job.work(cluster.ranks), job.on(cluster)
    lines = []
    for exchange in choices(job.parameters, cluster, work):
        step = step_on(cluster, work, exchange, job.parameters)
        course = run_cost_of(measured, exchange, step, cluster.link)
        bill = price_of(
            _mean_update(step, course),
            nodes=cluster.nodes,
            sentences_per_step=job.sentences,
            sentences=job.sentences * job.updates,
            price=job.price,
        )
        alone = one or bill
        speedup = bill.sentences_per_second / alone.sentences_per_second
        warning = why_not(bill.nodes, speedup, bill.step.waiting)
        lines.append(Line(step, course, bill, exchange, speedup, warning))
    return lines


def _mean_update(step: StepCost, course: RunCost) -> StepCost:
    """Return an update with its share of what comes between updates."""
    seconds, waiting = (
        whole / course.updates for whole in (course.seconds, course.waiting_seconds)
    )
    return StepCost(seconds, seconds - waiting, waiting, step.hidden)
