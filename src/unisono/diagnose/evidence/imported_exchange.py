"""What the exchange of an update should take, by arithmetic, in a run that was imported.

T seconds of a step hold its computing C and its exchange E, one behind the other or partly at
once: T is never less than the longer of the two. So an exchange that takes nearly all of T sets
the pace whatever the computing takes, and one that takes a small part of T cannot.
"""

import math
from dataclasses import dataclass
from statistics import median

from unisono.cost_model.exchange import Link, nominal_link, ring_bytes
from unisono.diagnose.evidence.ledger import Ledger
from unisono.diagnose.report import Bottleneck, Shares
from unisono.records.view import Imported

NEARLY_ALL = 0.75  # of the step: the exchange sets the pace
LITTLE = 0.30  # of the step: it does not
AS_GOOD_AS_EQUAL = 1.10
# Two ports that share the load, or numbers of 16 bits in place of 32, make half the time. A
# link that would have to be faster still is not the one that was used.
MOST_OFF = 2.2


@dataclass(frozen=True)
class ImportedExchange:
    """The bytes through each machine's card, each way, and the seconds they take on the link.

    `step` is the median of the measured steps. `seconds` is NaN if the link is not known.
    `measured` says that its rate was; one that was only bought is the most it can deliver.
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
        """Return bottleneck, not_bottleneck or unknown; only a measured link is acquitted."""
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
