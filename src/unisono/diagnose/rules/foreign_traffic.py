"""Somebody else uses the link."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.exchanged import expected_bytes
from unisono.diagnose.link_use import LinkUse, link_uses
from unisono.diagnose.report import Finding
from unisono.diagnose.words import percent
from unisono.units import amount_of_bytes


@dataclass(frozen=True)
class ForeignTraffic:
    """A good part of what an interface carried was not the exchange."""

    share: float = 0.20
    least_bytes_per_second: float = 250_000.0
    cost: float = 0.05

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        if case.bottleneck.shares.network < self.cost:
            return ()
        return tuple(_finding(case, use) for use in link_uses(case) if self._is_much(use))

    def _is_much(self, use: LinkUse) -> bool:
        much = use.foreign > self.share * use.bytes.more
        return use.proved and much and use.foreign_per_second > self.least_bytes_per_second


def _finding(case: Case, use: LinkUse) -> Finding:
    mbit = 8e-6 * use.foreign_per_second
    own = use.node.own
    lines = [
        f"{use.interface} carried {amount_of_bytes(use.bytes.more)} an update; the exchange "
        f"needs {amount_of_bytes(expected_bytes(case))}",
    ]
    if own is not None:
        lines.append(
            f"the run's own connections carried {amount_of_bytes(own.more)} of it, as the "
            "kernel counts them"
        )
    return Finding(
        id="foreign_traffic",
        severity="warning",
        summary=f"{percent(use.foreign / use.bytes.more)} of the traffic of {use.interface} on "
        f"{use.node.host} was not the exchange: {mbit:.0f} Mbit/s on average.",
        evidence=tuple(lines),
        advice=f"Find out who else uses {use.interface} (`ss -tip`, `iftop`): a copy, a "
        "download, a disk on the network, another job.",
        about=use.node.host,
    )
