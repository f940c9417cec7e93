"""A forecast for machines that you do not have: `unisono simulate`.

It builds what probes would find from a few figures about the model and the machines, and
hands that to the same forecast as `check`. As everywhere in Unisono, an update has the same
number of tokens on one device or on sixteen, unless it is to grow with the machines: with more
devices each computes less and exchanges as much. A device computes its share in one
micro-batch, which takes as long as launching its kernels, however small it is. The computing
time of evaluations and checkpoints is unknown here and left out; the exchange that precedes
each of them when machines make local updates is counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unisono.cost_model.cluster import INSIDE
from unisono.cost_model.devices import FIELD_FLOPS_PER_BYTE
from unisono.cost_model.exchange import BYTES_PER_FLOAT32, Link, ring_bytes
from unisono.cost_model.forecast import Forecast, forecast
from unisono.cost_model.probe_results import ProbeResults, Process, Sum, TrainingJob, Update
from unisono.models.settings import TransformerSettings, parameter_count, training_flops

# Adam reads weight, gradient and two moments of four bytes each, and writes all but the
# gradient. Every device does so, as fast as its memory allows.
OPTIMIZER_BYTES = 28
# A GPU takes as long as this over a micro-batch of a base model, however small that is: the
# processor has to launch a thousand kernels. Estimated from an H100's 200,000 tokens a second
# with 4,096 tokens at once.
LAUNCH_SECONDS, BASE_LAYERS = 0.02, 12
# How much slower or faster than assumed a device may well be.
DOUBT = 0.20


@dataclass(frozen=True)
class SimulatedJob:
    """What is to be trained, and how fast a device computes.

    `memory_rate` is the bandwidth of its memory in bytes a second; 0 means the usual one for
    `flops_per_second`. With `tokens_per_machine`, an update has so many tokens for each machine
    instead of `tokens_per_update`, and `updates`, `evaluation_every` and `checkpoint_every`
    are those of one machine: several see as many tokens in fewer updates.
    """

    model: TransformerSettings
    vocabulary: int
    tokens_per_update: int
    length: float
    flops_per_second: float
    updates: int
    memory_rate: float = 0.0
    price: float = 0.0
    evaluation_every: int = 0
    checkpoint_every: int = 0
    tokens_per_machine: int = 0

    def with_machines(self, machines: int) -> "SimulatedJob":
        """Return the job whose updates are as large as on so many machines."""
        if not self.tokens_per_machine:
            return self
        return replace(
            self,
            tokens_per_update=self.tokens_per_machine * machines,
            updates=math.ceil(self.updates / machines),
            evaluation_every=math.ceil(self.evaluation_every / machines),
            checkpoint_every=math.ceil(self.checkpoint_every / machines),
        )

    @property
    def flops_per_token(self) -> float:
        flops = training_flops(self.model, self.vocabulary, 1, self.length, self.length)
        return flops / self.length

    @property
    def launch_seconds(self) -> float:
        """Return the least that a device takes over an update."""
        layers = self.model.encoder_layers + self.model.decoder_layers
        return LAUNCH_SECONDS * layers / BASE_LAYERS

    @property
    def busy_tokens(self) -> float:
        """Return how many tokens keep a device busy while its kernels are launched."""
        return self.launch_seconds * self.flops_per_second / self.flops_per_token

    @property
    def parameters(self) -> int:
        return parameter_count(self.model, self.vocabulary)

    @property
    def sentences(self) -> float:
        return self.tokens_per_update / self.length

    def work(self, devices: int) -> Update:
        """Return what each of `devices` computes in one update."""
        flops = self.flops_per_token * self.tokens_per_update
        seconds = max(flops / devices / self.flops_per_second, self.launch_seconds)
        memory_rate = self.memory_rate or self.flops_per_second / FIELD_FLOPS_PER_BYTE
        optimizer = self.parameters * OPTIMIZER_BYTES / memory_rate
        return Update(seconds / 3, seconds * 2 / 3, optimizer)

    def on(self, machines: int, devices: int, link: Link) -> ProbeResults:
        """Return what probes would find on so many machines with so many `devices` each."""
        job = TrainingJob(
            parameters=self.parameters,
            tokens_per_update=self.tokens_per_update,
            sentences_per_update=self.sentences,
            updates=self.updates,
            evaluation_every=self.evaluation_every,
            checkpoint_every=self.checkpoint_every,
        )
        ranks, used = machines * devices, link if machines > 1 else INSIDE
        latency = 2 * (ranks - 1) * used.latency
        sent = ring_bytes(self.parameters, ranks)
        summed = Sum(
            self.parameters * BYTES_PER_FLOAT32, latency + sent / used.bytes_per_second, 0.0
        )
        update = self.work(ranks)
        processes = [
            Process(
                rank,
                rank % devices,
                f"node{rank // devices}",
                "cuda",
                *(1, 1, 0, 0, 0),
                updates=(update,),
                sums=(summed,),
            )
            for rank in range(ranks)
        ]
        return ProbeResults(job, tuple(processes), latency=latency)


@dataclass(frozen=True)
class Simulation:
    """A simulated forecast, and those for slower and faster devices than assumed.

    Each machine has so many `devices`.
    """

    job: SimulatedJob
    devices: int
    found: Forecast
    slower: Forecast
    faster: Forecast

    @property
    def starved(self) -> dict[int, float]:
        """Return which numbers of machines leave devices too few tokens, and how many."""
        shares = {
            some.machines: some.exact.tokens / (some.machines * self.devices)
            for some in self.found.by_machines
        }
        return {count: n for count, n in shares.items() if n < self.job.busy_tokens}


def simulate_run(
    job: SimulatedJob, machines: Sequence[int], devices: int, link: Link
) -> Simulation:
    """Return the forecast of the job on one machine and on each number of `machines`.

    Each machine has so many `devices`. Each number is compared with one machine, and with
    every smaller number that was asked about.
    """
    rates = [job.flops_per_second * factor for factor in (1.0, 1 - DOUBT, 1 + DOUBT)]
    found = []
    for rate in rates:
        one = replace(job, flops_per_second=rate)
        probes = [
            one.with_machines(count).on(count, devices, link)
            for count in sorted({1, *machines})
        ]
        found.append(forecast(probes[-1], job.price, probes[:-1]))
    return Simulation(job, devices, *found)
