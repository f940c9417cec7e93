"""The results of probes on the machines that will train. Structs, because JSON carries them."""

from functools import cached_property

import msgspec

from unisono.cost_model.exchange import machines_of
from unisono.cost_model.strategies import DEFAULT_STRATEGY


class Update(msgspec.Struct, frozen=True):
    """Seconds of one update on one process, with no gradients exchanged.

    `other` is the time not spent computing: for data, and waiting for the slowest process.
    """

    forward: float
    backward: float
    optimizer: float
    other: float = 0.0


def computing_of(update: Update) -> float:
    """Return the seconds of an update that are computing."""
    return update.forward + update.backward + update.optimizer


class Sum(msgspec.Struct, frozen=True):
    """One sum over all processes: its bytes, its seconds, and the CPU seconds it took."""

    bytes: int
    seconds: float
    processor_seconds: float


class Packing(msgspec.Struct, frozen=True):
    """Seconds that a CPU takes to quantize one number to `bits` bits.

    `pack` is to quantize it and compute the residual, `unpack` to add one process's number to
    the sum.
    """

    bits: int
    pack: float
    unpack: float


class Gradient(msgspec.Struct, frozen=True):
    """One weight's gradient: its bytes, and after what share of the backward pass it is final.

    They are listed in the order in which they become so. That of the `embedding` is of the
    tied matrix: it both embeds words and scores them.
    """

    bytes: int
    ready: float
    embedding: bool = msgspec.field(default=False, name="words")


class OneWay(msgspec.Struct, frozen=True):
    """The bytes a second that arrive from one machine at another; machines are numbered."""

    sender: int
    receiver: int
    rate: float


class Process(msgspec.Struct, frozen=True):
    """One process of the run: where it runs, its resources, and what it measured."""

    rank: int
    local_rank: int
    host: str
    device: str
    threads: int
    cores: int
    memory_bytes: int
    peak_bytes: int
    free_disk_bytes: int
    interface: str = ""
    nominal_mbit: int = 0
    updates: tuple[Update, ...] = ()
    sums: tuple[Sum, ...] = ()


class TrainingJob(msgspec.Struct, frozen=True):
    """The run to forecast: sizes, counts, settings of the exchange.

    `updates` is 0 if nothing limits their number. `tail` is the share of the backward pass
    during which gradients become final and can be sent: that of the last micro-batch.
    `bucket_mb` is 0 if it is not set. Machines make local updates after `warmup_steps` and
    until `closing_steps` before the end. `averages` says whether weights have moving averages.
    Quantized numbers are summed in so many `phases`; 0 means that the strategy decides.
    `low_rank_numbers` are those that PowerSGD sends of a gradient; `outer_momentum` says
    whether DiLoCo's outer optimizer keeps one.
    """

    parameters: int
    tokens_per_update: float
    sentences_per_update: float
    updates: int
    evaluation_every: int = 0
    checkpoint_every: int = 0
    tail: float = 1.0
    bucket_mb: float = 0.0
    strategy: str = DEFAULT_STRATEGY
    bits: int = 32
    phases: int = 0
    local_steps: int = 1
    warmup_steps: int = 0
    closing_steps: int = 0
    averages: bool = False
    low_rank_numbers: int = msgspec.field(default=0, name="narrow_numbers")
    outer_momentum: bool = False
    gradients: tuple[Gradient, ...] = ()

    @property
    def evaluations(self) -> int:
        """Return how many there will be; one is at the end."""
        return -(-self.updates // self.evaluation_every) if self.evaluation_every else 0

    @property
    def checkpoints(self) -> int:
        """Return how many there will be; one is at the end."""
        return -(-self.updates // self.checkpoint_every) if self.checkpoint_every else 0


class ProbeResults(msgspec.Struct, frozen=True, dict=True):
    """Everything the probes found, the same on every process.

    `evaluation_seconds` are those of a whole validation, including the `translation_seconds`
    for BLEU and samples. `outer_seconds` is the CPU time of DiLoCo for each number besides
    quantizing, `narrowing_seconds` that of PowerSGD for one update. `unmeasured` names what
    there was no time for; `seconds` is how long the probes took.
    """

    job: TrainingJob
    processes: tuple[Process, ...]
    pairs: tuple[OneWay, ...] = ()
    pulses: tuple[float, ...] = ()
    latency: float = 0.0
    packings: tuple[Packing, ...] = ()
    outer_seconds: float = 0.0
    narrowing_seconds: float = 0.0
    loader_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    translation_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    checkpoint_bytes: int = 0
    unmeasured: tuple[str, ...] = ()
    seconds: float = 0.0

    @cached_property
    def members(self) -> list[list[int]]:
        """Return the ranks of each machine."""
        hosts = [process.host for process in self.processes]
        return machines_of(hosts, [process.local_rank for process in self.processes])

    @property
    def machines(self) -> int:
        return len(self.members)

    @property
    def workers(self) -> int:
        """Return how many processes the fullest machine has."""
        return max(map(len, self.members))

    def machine(self, number: int) -> str:
        """Return the name of a machine, with its number if others have the same name."""
        hosts = [self.processes[ranks[0]].host for ranks in self.members]
        twice = hosts.count(hosts[number]) > 1
        return f"{hosts[number]} ({number})" if twice else hosts[number]
