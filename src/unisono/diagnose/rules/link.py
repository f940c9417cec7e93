"""Links that slow down, carry other traffic, are slow one way, or are not the fastest."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.counters import counter_of, during, find_drop
from unisono.diagnose.evidence.expected_bytes import expected_bytes
from unisono.diagnose.evidence.link_use import LinkUse, is_shared, link_uses
from unisono.diagnose.evidence.traffic import Node, TrafficPath, network_of, networks_of
from unisono.diagnose.report import Finding, finding
from unisono.diagnose.wording import percent
from unisono.records.monitor_events import Peer
from unisono.units import amount_of_bytes, duration

MBIT = 8e-6


@dataclass(frozen=True)
class BurstCredits:
    """The rate of a link fell for good although the run sent as much as before.

    A rate is bytes over the time in which there was something to send, so an exchange that
    merely happens less often does not look like a slower link.
    """

    factor: float = 1.5
    fewest: int = 8
    share: float = 0.05

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        if len(case.run.hosts) < 2 or case.bottleneck.shares.network < self.share:
            return ()
        nodes = [node for node in case.nodes if not is_shared(case, (node.host,))]
        # All machines of a ring slow down with the slowest link: one finding is enough.
        return next(filter(None, (self._look(case, node) for node in nodes)), ())

    def _look(self, case: Case, node: Node) -> tuple[Finding, ...]:
        way = node.main_way
        rates = _rates(node, way) if way is not None else []
        place = find_drop([rate for _, rate in rates], factor=self.factor, fewest=self.fewest)
        if way is None or place is None:
            return ()
        moment = rates[place][0]
        steps = case.run.ranks.get(node.rank, ())
        step = next((step.step for step in steps if step.time >= moment), steps[-1].step)
        before = [s.seconds for s in steps if s.time < moment]
        after = [s.seconds for s in steps if s.time >= moment]
        speeds = [MBIT * rate for _, rate in rates]
        fast, slow = _carried(speeds[:place]), _carried(speeds[place:])
        return finding(
            "burst_credits",
            f"The link of {node.host} slowed down at step {step:,}, from {fast:.0f} to "
            f"{slow:.0f} Mbit/s, for the same bytes an update.",
            f"rates to {way.address} while there was something to send, over "
            f"{len(rates):,} samples",
            f"an update took {duration(_mean(before))} before and "
            f"{duration(_mean(after))} after",
            advice="Rented machines often have credits for bursts and a lower sustained rate. "
            f"Plan with {slow:.0f} Mbit/s, rent a machine with more bandwidth, or exchange "
            "less often (`batching.tokens_per_update`).",
            steps=[step],
        )


def _rates(node: Node, way: TrafficPath) -> list[tuple[float, float]]:
    """Return the time and the rate of what was sent, sample by sample."""
    inside = during(node.samples, node.stretches)
    sent = counter_of(inside, lambda s: s.peers.get(way.address, Peer()).busiest_sent)
    busy = counter_of(inside, lambda s: s.peers.get(way.address, Peer()).busy)
    if sent is None or busy is None:
        return []
    points = list(zip(sent.times, sent.values, busy.values, strict=True))
    return [
        (time, (bytes_now - bytes_then) / (busy_now - busy_then))
        for (_, bytes_then, busy_then), (time, bytes_now, busy_now) in zip(
            points, points[1:], strict=False
        )
        if busy_now - busy_then > 0 and bytes_now > bytes_then
    ]


def _carried(speeds: list[float]) -> float:
    """Return what the link carries: a sender that waits for a core shows less, never more."""
    return quantiles(speeds, n=4)[2]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


@dataclass(frozen=True)
class ForeignTraffic:
    """A good part of what an interface carried was not the exchange."""

    share: float = 0.20
    least_bytes_per_second: float = 250_000.0
    cost: float = 0.05

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        if case.bottleneck.shares.network < self.cost:
            return ()
        much = [use for use in link_uses(case) if self._is_much(use)]
        return tuple(one for use in much for one in _foreign(case, use))

    def _is_much(self, use: LinkUse) -> bool:
        much = use.foreign > self.share * use.bytes.more
        return use.proved and much and use.foreign_per_second > self.least_bytes_per_second


def _foreign(case: Case, use: LinkUse) -> tuple[Finding, ...]:
    mbit = MBIT * use.foreign_per_second
    own = use.node.own
    lines = [
        f"{use.interface} carried {amount_of_bytes(use.bytes.more)} an update; the exchange "
        f"needs {amount_of_bytes(expected_bytes(case))}"
    ]
    if own is not None:
        lines.append(
            f"the kernel counts {amount_of_bytes(own.more)} of it on the run's own connections"
        )
    return finding(
        "foreign_traffic",
        f"{percent(use.foreign / use.bytes.more)} of the traffic of {use.interface} on "
        f"{use.node.host} was not the exchange: {mbit:.0f} Mbit/s on average.",
        *lines,
        advice=f"Find out what else uses {use.interface} (`ss -tip`, `iftop`): a copy, a "
        "download, a network disk, another job.",
        about=use.node.host,
    )


@dataclass(frozen=True)
class Direction:
    """What one machine sends to another."""

    sender: str
    receiver: str
    bytes_per_second: float


@dataclass(frozen=True)
class SlowDirection:
    """One direction between two machines is slower than the others, and the ring waits for it.

    `saving` is the share of an update to save if that direction were as fast as the others.
    """

    factor: float = 2.0
    saving: float = 0.10

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        directions = _directions(case)
        if len(directions) < 2 or case.ledger.mean_step <= 0:
            return ()
        slow = min(directions, key=lambda one: one.bytes_per_second)
        if is_shared(case, (slow.sender, slow.receiver)):
            return ()
        usual = median(one.bytes_per_second for one in directions if one is not slow)
        count = expected_bytes(case)
        seconds = count / slow.bytes_per_second - count / usual
        share = seconds / case.ledger.mean_step
        if usual < self.factor * slow.bytes_per_second or share < self.saving:
            return ()
        return finding(
            "slow_direction",
            f"From {slow.sender} to {slow.receiver} the link carries "
            f"{MBIT * slow.bytes_per_second:.0f} Mbit/s, elsewhere {MBIT * usual:.0f} "
            "Mbit/s: that direction sets the pace of the exchange.",
            *(
                f"{one.sender} → {one.receiver}: {MBIT * one.bytes_per_second:.0f} Mbit/s"
                for one in directions
            ),
            f"with that direction as fast as the others, an update would be about "
            f"{percent(min(1.0, share))} shorter",
            advice=f"Check what limits {slow.sender} in sending and {slow.receiver} in "
            "receiving: port, cable, switch, firewall, traffic shaping.",
            about=f"from {slow.sender} to {slow.receiver}",
        )


def _directions(case: Case) -> list[Direction]:
    hosts = {start.address: start.host for start in case.run.last_starts if start.address}
    needed = expected_bytes(case)
    return [
        Direction(node.host, hosts[way.address], way.able)
        for node in case.nodes
        for way in node.ways
        # Small control messages go other ways as well.
        if way.address in hosts and way.sent > 0.5 * needed * node.updates
    ]


@dataclass(frozen=True)
class WrongInterface:
    """All machines have an idle interface on a common network that may be faster.

    Its nominal rate is `factor` times that of the interface in use, or what that reached.
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
        used = " and ".join(sorted({use.interface for use in uses}))
        return finding(
            "wrong_interface",
            f"The exchange uses {used} and takes {percent(case.bottleneck.shares.network)} of "
            f"the time, while {' or '.join(names)} is idle.",
            *(
                f"{use.node.host}: {use.interface} is nominally {use.nominal_mbit_per_s:,} "
                f"Mbit/s and reached {use.mbit_per_s:.0f}; {name} is nominally "
                f"{use.node.nominal(name):,} Mbit/s and in {network}, as on all machines"
                for use, name in better
            ),
            advice=f'Set `sync.interface = "{names[0]}"` and compare.',
        )

    def _better_networks(self, use: LinkUse) -> set[str]:
        """Return the networks of interfaces that are up, idle and nominally faster."""
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
        # Something behind it limits an interface that reaches a fraction of its nominal rate.
        disappoints = not nominal or use.mbit_per_s * self.factor < nominal
        return disappoints and mbit_per_s >= self.factor * use.mbit_per_s


def _is_one(network: str, uses: Sequence[LinkUse]) -> bool:
    """Return whether a network joins the machines, rather than existing inside each.

    The bridges of containers and virtual machines have the same address everywhere.
    """
    mine = [use.node.links[_on(use, network)].addresses for use in uses]
    inside = [a for addresses in mine for a in addresses if network_of(a) == network]
    return len(set(inside)) == len(inside)


def _on(use: LinkUse, network: str) -> str:
    links = use.node.links
    return next(name for name, link in links.items() if network in networks_of(link))
