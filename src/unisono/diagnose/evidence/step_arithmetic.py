"""What arithmetic says about a step: the operations, the bytes to exchange, their seconds.

Of an imported run nothing but the step time is measured. A step of T seconds holds computing C
and exchange E, one after the other or partly at the same time, so T is never less than the
longer of the two. An exchange that takes nearly all of T sets the pace whatever the computing
takes, and one that takes a small part of T cannot.
"""

import math
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec

from unisono.cost_model.devices import DEVICES, Device
from unisono.cost_model.exchange import EFFICIENCY, Link, nominal_link, ring_bytes
from unisono.diagnose.evidence.ledger import Ledger
from unisono.diagnose.evidence.run_files import corpus_facts
from unisono.diagnose.report import Bottleneck, Shares
from unisono.models.settings import TransformerSettings, training_flops
from unisono.records.view import Imported, RunView

# Forward and backward pass take six operations for each weight and each pair of tokens.
FLOPS_PER_WEIGHT = 6
PORTS_MBIT = (10, 100, 1000, 2500, 5000, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000)
NEARLY_ALL = 0.75  # of the step: the exchange sets the pace
LITTLE = 0.30  # of the step: it does not
AS_GOOD_AS_EQUAL = 1.10
MOSTLY_SOMETHING_ELSE = 0.5  # of the step, that the devices do not need
# Two ports that share the load, or numbers of 16 bits in place of 32, make half the time. A
# link that would have to be faster still is not the one that was used.
MOST_OFF = 2.2


@dataclass(frozen=True)
class ImportedExchange:
    """The bytes through each machine's card, each way, and the seconds they take on the link.

    `step` is the median of the measured steps. `seconds` is NaN if the link is not known.
    `measured` says that its rate was measured; a nominal rate is an upper bound.
    """

    card_bytes: float
    step: float
    seconds: float
    measured: bool = False

    @property
    def ratio(self) -> float:
        """Return the exchange as a multiple of the step; NaN if the link is not known."""
        return self.seconds / self.step

    @property
    def needed_bits_per_second(self) -> float:
        """Return what the link must have carried at least, for the bytes to fit in the step."""
        return 8 * self.card_bytes / self.step

    @property
    def verdict(self) -> str:
        """Return bottleneck, not_bottleneck (only for a measured link) or unknown."""
        if NEARLY_ALL <= self.ratio <= MOST_OFF:
            return "bottleneck"
        return "not_bottleneck" if self.ratio <= LITTLE and self.measured else "unknown"


def imported_exchange_of(about: Imported, ledger: Ledger) -> ImportedExchange | None:
    """Return the arithmetic for the run, or None if too little is known of it.

    An exchange goes in a ring over all processes, those of a machine side by side, in float32.
    """
    rows = ledger.usual
    known = about.parameters and about.processes > 1 and about.machines > 1 and rows
    if not known:
        return None
    count = ring_bytes(about.parameters, about.processes)
    step = median(row.seconds for row in rows)
    if step <= 0:
        return None
    rate = about.link_bits_per_second
    link = Link(rate / 8) if about.link_measured else nominal_link(rate)
    seconds = link.seconds(count) if rate else math.nan
    return ImportedExchange(count, step, seconds, about.link_measured)


def computed_bottleneck(about: Imported, ledger: Ledger) -> Bottleneck:
    """Name the network if arithmetic does; otherwise where the time went is not known."""
    wire = imported_exchange_of(about, ledger)
    if wire is None or wire.verdict != "bottleneck":
        shares = Shares(other=1.0)
        return Bottleneck(cause="unknown", share=1.0, shares=shares, measured=False)
    share = round(min(1.0, wire.ratio), 4)
    shares = Shares(network=share, other=round(1.0 - share, 4))
    return Bottleneck(cause="network", share=share, shares=shares, measured=False)


def port_for(bits_per_second: float) -> int:
    """Return the Mbit/s of the port that carries this rate when it is full, or 0 if none does.

    TCP reaches 94 % of a port's nominal rate.
    """
    for mbit in PORTS_MBIT:
        if NEARLY_ALL <= bits_per_second / (EFFICIENCY * 1e6 * mbit) <= AS_GOOD_AS_EQUAL:
            return mbit
    return 0


@dataclass(frozen=True)
class ImportedCompute:
    """What the devices of an imported run need for a step, at most.

    `flops` are those of one device, if each of its `sentences` has `length` tokens, the most
    that the settings allow. `rate` is what training reaches on that device.
    """

    device: str
    precision: str
    sentences: int
    length: int
    flops: float
    rate: float

    @property
    def seconds(self) -> float:
        return self.flops / self.rate

    def share_of(self, step: float) -> float:
        """Return the share of a step of so many seconds that computing takes."""
        return min(1.0, self.seconds / step) if step > 0 else 1.0


def imported_compute_of(run: RunView) -> ImportedCompute | None:
    """Return what the devices need for a step; None if the device or a size is not known."""
    device, about = known_device(run), run.imported
    sentences = imported_setting(run, "batch_size_per_gpu")
    length = imported_setting(run, "data_layer_params", "max_length")
    passes = imported_setting(run, "iter_size") or 1
    known = all(isinstance(n, int) and n > 0 for n in (sentences, length, passes))
    if device is None or about is None or not about.parameters or not known:
        return None
    count, longest = sentences * passes, length + 1
    flops = float(FLOPS_PER_WEIGHT) * about.parameters * count * longest
    precision = precision_of(run)
    rate = device.field_rate(precision)  # other trainers; ours has a ledger
    return ImportedCompute(device.name, precision, count, longest, flops, rate)


def imported_setting(run: RunView, *path: str) -> Any:
    """Return one of the other trainer's own settings, or None."""
    value: Any = run.config.get("openseq2seq")
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def precision_of(run: RunView) -> str:
    """Return the precision that the settings name, or fp32."""
    train = run.config.get("train")
    told = train.get("precision") if isinstance(train, dict) else None
    return told if isinstance(told, str) else "fp32"


def flops_per_second(run: RunView, ledger: Ledger, size: int) -> float | None:
    """Return the operations a second of each process over whole updates; None if unknown."""
    each = flops_per_update(run)
    if each is None or not ledger.mean_step or not size:
        return None
    return each / ledger.mean_step / size


def flops_per_update(run: RunView) -> float | None:
    """Return the floating-point operations of a mean update; None if the model is unknown."""
    facts, steps = corpus_facts(run.corpus), run.steps
    sentences = sum(step.sentences for step in steps)
    tokens = sum(step.source_tokens + step.target_tokens for step in steps)
    if facts is None or not facts.vocabulary or not sentences or not tokens:
        return None
    try:
        settings = msgspec.convert(run.config.get("model"), TransformerSettings)
    except msgspec.ValidationError:
        return None
    padded = sum(step.positions for step in steps) / tokens
    source = padded * sum(step.source_tokens for step in steps) / sentences
    target = padded * sum(step.target_tokens for step in steps) / sentences
    return training_flops(settings, facts.vocabulary, sentences, source, target) / len(steps)


def known_device(run: RunView) -> Device | None:
    """Return the data sheet of the run's GPUs, if there is one."""
    if not any(start.device.startswith("cuda") for start in run.last_starts):
        return None
    names = [str(name) for name in run.environment.get("devices", [])]
    plain = "".join(names[:1]).upper().replace(" ", "").replace("-", "")
    return next((device for name, device in DEVICES.items() if name in plain), None)
