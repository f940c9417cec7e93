"""The table of strategies: everything that is known of one without running it.

A strategy is one file and one entry. The file, in `comm/strategies/`, holds its implementation:
a frozen dataclass with `from_settings` and `attach`. The entry below holds its facts, which
the settings, the cost model, `check`, "auto", the diagnosis and the report ask for. None of
them asks for a strategy by its name.
"""

from collections.abc import Callable
from dataclasses import dataclass

from unisono.cost_model.exchange import (
    QUANTIZED_BLOCK,
    quantized_bytes,
    ring_bytes,
    summed_bytes,
    usual_phases,
)

AUTO = "auto"  # `sync.strategy`: measure first, then choose one of those that are `automatic`


@dataclass(frozen=True)
class Payload:
    """One gradient to exchange: how many numbers, in how many bits, among whom.

    `low_rank_numbers` is what is left of `parameters` once each matrix is a product of two
    narrow ones. Quantized numbers are summed in so many `phases`; 0 means as many as usual.
    """

    parameters: int
    machines: int
    processes: int
    bits: int = 32
    low_rank_numbers: int = 0
    phases: int = 0

    @property
    def times(self) -> str:
        """Return in words how often a quantized message passes each card."""
        two = (self.phases or usual_phases(self.senders)) == 2
        once = f"({self.senders} − 1)"
        return f"2 · {once}/{self.senders}" if two else once

    @property
    def senders(self) -> int:
        """Return how many processes send: one of each machine, or all where there is one."""
        return self.machines if self.machines > 1 else self.processes


@dataclass(frozen=True)
class StrategyFacts:
    """What is known of a strategy.

    `implementation` names its class as "module:Class". `wire_bytes` returns the bytes that
    one exchange sends through each network card, and `arithmetic` is that formula in words.
    `price` says what the strategy costs the training. `label` is how tables call it.

    What it does: an `exact` one computes the update that one process would make. A `quantized`
    one sends `sync.bits` bits a number, a `low_rank` one sends matrices as products. If it
    `overlaps`, it sends while the backward pass still computes. With a `local` one, machines
    make `sync.local_steps` updates by themselves between two exchanges. `delays_embedding`:
    what the encoder's and decoder's input adds to the tied embedding's gradient is sent one
    update later. `warm_up` says how the first `sync.warmup_steps` updates are made; "" means
    that there is no warm-up. `kept_numbers` are the numbers kept in memory for each weight.

    Who offers it: "auto" chooses among the `automatic` ones, `check` compares the `listed`
    ones with the one that is configured.
    """

    name: str
    implementation: str
    price: str
    arithmetic: str
    wire_bytes: Callable[[Payload], float]
    kept_numbers: int
    label: str = "{name}"
    exact: bool = False
    quantized: bool = False
    low_rank: bool = False
    overlaps: bool = True
    local: bool = False
    delays_embedding: bool = False
    warm_up: str = ""
    keeps_momentum: bool = False
    automatic: bool = False
    listed: bool = False

    def bits(self, wanted: int) -> int:
        """Return the bits of each number it sends, if `sync.bits` are `wanted`."""
        return wanted if self.quantized else 32

    def every(self, wanted: int) -> int:
        """Return the updates between two exchanges, if `sync.local_steps` are `wanted`."""
        return wanted if self.local else 1


def _whole_gradient(payload: Payload) -> float:
    return ring_bytes(payload.parameters, payload.processes)


def _low_rank_factors(payload: Payload) -> float:
    return ring_bytes(payload.low_rank_numbers, payload.processes)


def _quantized_gradient(payload: Payload) -> float:
    message = quantized_bytes(payload.parameters, payload.bits)
    return summed_bytes(message, payload.senders, payload.phases)


_RING = "2 · ({ranks} − 1)/{ranks} · 4 bytes · {parameters:,} parameters"
_QUANTIZED = (
    f"{{times}} · {{bits}} bits and a factor for {QUANTIZED_BLOCK} · "
    "{parameters:,} parameters"
)

STRATEGIES = {
    facts.name: facts
    for facts in (
        StrategyFacts(
            "ddp",
            "unisono.comm.strategies.ddp:Ddp",
            price="updates are exact",
            arithmetic=_RING,
            wire_bytes=_whole_gradient,
            kept_numbers=1,  # the buckets
            exact=True,
            automatic=True,
            listed=True,
        ),
        StrategyFacts(
            "all_reduce",
            "unisono.comm.strategies.all_reduce:AllReduce",
            price="updates are exact",
            arithmetic=_RING,
            wire_bytes=_whole_gradient,
            kept_numbers=2,  # the message, and its sum
            exact=True,
            overlaps=False,
        ),
        StrategyFacts(
            "compressed",
            "unisono.comm.strategies.compressed:Compressed",
            price="each gradient is rounded to {bits} bits a number; what rounding drops, and "
            "the delayed part of the embedding's gradient, is added to the next",
            arithmetic=_QUANTIZED,
            wire_bytes=_quantized_gradient,
            kept_numbers=3,  # the buckets, the residuals, those of an unfinished update
            label="{bits}-bit",
            quantized=True,
            delays_embedding=True,
            automatic=True,
            listed=True,
        ),
        StrategyFacts(
            "powersgd",
            "unisono.comm.strategies.powersgd:PowerSgd",
            price="each matrix of a gradient is a product of two narrow ones, and what they "
            "leave out is added to the next",
            arithmetic="2 · ({ranks} − 1)/{ranks} · 4 bytes · {numbers:,} numbers, all "
            "matrices as products of rank {rank} where that is less",
            wire_bytes=_low_rank_factors,
            kept_numbers=3,  # the buckets, the residuals, those of an unfinished update
            low_rank=True,
            overlaps=False,
            warm_up="exact",
            listed=True,
        ),
        StrategyFacts(
            "diloco",
            "unisono.comm.strategies.diloco:Diloco",
            price="each machine makes updates of its own, and all synchronise their weights "
            "{often}, in {bits} bits a number: training takes another course than with exact "
            "gradients, the more so the more rarely they synchronise",
            arithmetic=_QUANTIZED,
            wire_bytes=_quantized_gradient,
            kept_numbers=3,  # the buckets, the weights all have in common, the residuals
            label="{name}, every {every}",
            quantized=True,
            local=True,
            warm_up="made together",
            keeps_momentum=True,
            automatic=True,
            listed=True,
        ),
    )
}
DEFAULT_STRATEGY = next(iter(STRATEGIES))


def facts_of(name: str) -> StrategyFacts | None:
    """Return the facts of a strategy by name; None for "auto" or one of another trainer."""
    return STRATEGIES.get(name)


def is_local(name: str) -> bool:
    """Return whether machines make updates by themselves with the strategy of this name."""
    facts = facts_of(name)
    return facts is not None and facts.local


def warm_up_of(name: str) -> str:
    """Return how the first updates are made with the strategy of this name, or ""."""
    facts = facts_of(name)
    return facts.warm_up if facts else ""


def is_exact(name: str) -> bool:
    """Return whether the strategy of this name is known to compute exact updates."""
    facts = facts_of(name)
    return facts is not None and facts.exact


def overlaps(name: str) -> bool:
    """Return whether the strategy of this name sends during the backward pass, as most do."""
    facts = facts_of(name)
    return facts is None or facts.overlaps
