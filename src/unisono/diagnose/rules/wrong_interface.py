"""The exchange goes over a slow interface while a faster one lies idle."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.link_use import LinkUse, link_uses
from unisono.diagnose.report import Finding
from unisono.diagnose.traffic import network_of, networks_of
from unisono.diagnose.words import percent


@dataclass(frozen=True)
class WrongInterface:
    """All machines have an idle interface on a network of their own that may be faster.

    Faster is one that says so: by `factor` than the one in use, or than what that reached.
    """

    factor: float = 2.0
    idle: float = 0.05
    cost: float = 0.10

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        uses = link_uses(case)
        if case.bottleneck.shares.network < self.cost or len(uses) < 2:
            return ()
        better_networks = (self._better_networks(use) for use in uses)
        shared = {n for n in set.intersection(*better_networks) if _is_one(n, uses)}
        if not shared:
            return ()
        network = min(shared)
        better = [(use, _on(use, network)) for use in uses]
        names = sorted({name for _, name in better})
        return (
            Finding(
                id="wrong_interface",
                severity="warning",
                summary=f"The exchange goes over {_used(uses)}, which takes "
                f"{percent(case.bottleneck.shares.network)} of the time, while "
                f"{' or '.join(names)} lies idle.",
                evidence=tuple(
                    f"{use.node.host}: {use.interface} says {use.nominal_mbit_per_s:,} Mbit/s "
                    f"and reached {use.mbit_per_s:.0f} Mbit/s; {name} says "
                    f"{use.node.nominal(name):,} Mbit/s and is in {network} as on all machines"
                    for use, name in better
                ),
                advice=f'Set `sync.interface = "{names[0]}"` and compare.',
            ),
        )

    def _better_networks(self, use: LinkUse) -> set[str]:
        """Return the networks of interfaces that are up, idle, and say they are faster."""
        node, found = use.node, set()
        for name, link in node.links.items():
            carried = node.carried[name].more if name in node.carried else 0.0
            idle = name != use.interface and carried < self.idle * use.bytes.more
            if link.up and idle and self._is_faster(use, link.mbit_per_s):
                found |= networks_of(link)
        return found

    def _is_faster(self, use: LinkUse, mbit_per_s: int) -> bool:
        if mbit_per_s <= 0:
            return False
        nominal = use.nominal_mbit_per_s
        if nominal and mbit_per_s >= self.factor * nominal:
            return True
        # One that reaches a fraction of what it says is limited by something behind it.
        disappoints = not nominal or use.mbit_per_s * self.factor < nominal
        return disappoints and mbit_per_s >= self.factor * use.mbit_per_s


def _is_one(network: str, uses: Sequence[LinkUse]) -> bool:
    """Return whether it is one network, and not one of the same numbers inside each machine.

    The bridges of containers and virtual machines have the same address everywhere.
    """
    mine = [use.node.links[_on(use, network)].addresses for use in uses]
    inside = [a for addresses in mine for a in addresses if network_of(a) == network]
    return len(set(inside)) == len(inside)


def _on(use: LinkUse, network: str) -> str:
    links = use.node.links
    return next(name for name, link in links.items() if network in networks_of(link))


def _used(uses: Sequence[LinkUse]) -> str:
    return " and ".join(sorted({use.interface for use in uses}))
