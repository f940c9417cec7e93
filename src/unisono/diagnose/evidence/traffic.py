"""What the machines sent and received for each update, and over which interface."""

import ipaddress
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from unisono.diagnose.evidence.counters import Stretch, counter_of, during, stretches_of
from unisono.records.events import Started
from unisono.records.monitor_events import MachineLog, NetworkInterface, Peer, Sampled, Traffic
from unisono.records.view import RunView

LEAST_SECONDS, LEAST_UPDATES = 2.0, 5
# Of the bytes that an update needs: less than this did not carry it.
PROVED = 0.9
MOST_BLURRED = 0.5
LOOPBACK = "lo"


@dataclass(frozen=True)
class Bytes:
    """Bytes an update, each way."""

    sent: float
    received: float

    @property
    def more(self) -> float:
        """Return the bytes of the direction that carried more."""
        return max(self.sent, self.received)

    def covers(self, count: float) -> bool:
        """Return whether as many as `count` went both ways, up to a tenth."""
        return min(self.sent, self.received) >= PROVED * count


@dataclass(frozen=True)
class TrafficPath:
    """From one machine to one address: bytes a second while there was data to send.

    `share` is the share of the training time with data to send. `able` is the highest rate
    that the path has reached: short messages mostly wait for acknowledgements, and a slow way
    back makes the way there look slow too.
    """

    address: str
    sent: float
    bytes_per_second: float
    able: float
    share: float
    rtt: float
    retransmitted: float


@dataclass(frozen=True)
class Node:
    """What one machine sent and received during the stretches of training.

    `interface` is the one that its processes were told to use; `own` are the bytes of the
    run's connections to other machines, None where the kernel does not count them.
    """

    rank: int
    host: str
    interface: str
    updates: int
    seconds: float
    carried: dict[str, Bytes]
    own: Bytes | None
    ways: tuple[TrafficPath, ...] = ()
    links: dict[str, NetworkInterface] = field(default_factory=dict)
    stretches: tuple[Stretch, ...] = ()
    samples: tuple[Sampled, ...] = field(default=(), repr=False)

    @property
    def blurred(self) -> float:
        """Return the share of a count that may be lost where stretches begin and end.

        No sample was taken at these moments: interpolation spreads bytes over the pause, too.
        """
        looks = [sample.seconds for sample in self.samples if sample.seconds > 0]
        edge = median(looks) / 2 if looks else 0.0
        return min(MOST_BLURRED, edge * len(self.stretches) / self.seconds)

    def carrier(self, expected: float) -> str | None:
        """Return the interface proved by its bytes to carry the exchange, or None."""
        least = (1 - self.blurred) * expected
        able = {name: c for name, c in self.carried.items() if c.covers(least)}
        if self.interface in able:
            return self.interface
        able.pop(LOOPBACK, None)
        return min(able, key=lambda name: able[name].more, default=None)

    @property
    def main_way(self) -> TrafficPath | None:
        """Return the path that carried most."""
        return max(self.ways, key=lambda way: way.sent, default=None)

    def nominal(self, interface: str) -> int:
        """Return the Mbit/s that an interface says it has; 0 if it does not."""
        return self.links[interface].mbit_per_s if interface in self.links else 0


def nodes_of(run: RunView) -> tuple[Node, ...]:
    """Return the machines of the last start that were sampled for long enough."""
    starts = {start.rank: start for start in run.last_starts}
    nodes = (
        _node(starts[rank], run, log) for rank, log in run.machines.items() if rank in starts
    )
    return tuple(node for node in nodes if node is not None)


def _node(start: Started, run: RunView, log: MachineLog) -> Node | None:
    samples = [sample for sample in log.samples if sample.time >= _began(log)]
    steps = [step for step in run.ranks.get(start.rank, ()) if step.time >= start.time]
    stretches = stretches_of(steps, samples)
    updates, seconds = sum(s.updates for s in stretches), sum(s.seconds for s in stretches)
    if updates < LEAST_UPDATES or seconds < LEAST_SECONDS:
        return None
    names = dict.fromkeys(name for sample in samples for name in sample.interfaces)
    counted = partial(_bytes, samples, stretches, updates)
    links = log.machines[-1].interfaces if log.machines else {}
    mine = {a.partition("/")[0] for link in links.values() for a in link.addresses}
    others = dict.fromkeys(a for s in samples for a in s.peers if _is_elsewhere(a, mine))
    own = counted(partial(_own, others)) if others else None
    ways = [_way(samples, stretches, address, seconds) for address in others]
    return Node(
        rank=start.rank,
        host=start.host,
        interface=start.interface,
        updates=updates,
        seconds=seconds,
        carried={n: b for n in names if (b := counted(partial(_interface, n))) is not None},
        own=own,
        ways=tuple(way for way in ways if way is not None),
        links=links,
        stretches=tuple(stretches),
        samples=tuple(samples),
    )


def _is_elsewhere(address: str, mine: set[str]) -> bool:
    with suppress(ValueError):
        return address not in mine and not ipaddress.ip_address(address).is_loopback
    return False


def networks_of(link: NetworkInterface) -> set[str]:
    """Return the networks that an interface is a part of, such as 10.0.0.0/24."""
    return {network for address in link.addresses if (network := network_of(address))}


def network_of(address: str) -> str:
    """Return the network of an address such as 10.0.0.7/24; "" if others cannot reach it."""
    with suppress(ValueError):
        one = ipaddress.ip_interface(address)
        if not one.is_loopback and not one.is_link_local:
            return str(one.network)
    return ""


def _began(log: MachineLog) -> float:
    return log.machines[-1].time if log.machines else 0.0


Both = Callable[[Sampled], tuple[int, int] | None]


def _interface(name: str, sample: Sampled) -> tuple[int, int]:
    found = sample.interfaces.get(name, Traffic())
    return found.sent, found.received


def _own(addresses: Container[str], sample: Sampled) -> tuple[int, int]:
    others = [peer for address, peer in sample.peers.items() if address in addresses]
    return sum(peer.sent for peer in others), sum(peer.received for peer in others)


def _bytes(
    samples: Sequence[Sampled], stretches: Sequence[Stretch], updates: int, read: Both
) -> Bytes | None:
    ways = []
    for place in (0, 1):
        counter = counter_of(samples, lambda s, i=place: (read(s) or (0, 0))[i])  # type: ignore[misc]
        if counter is None:
            return None
        ways.append(counter.over(stretches) / updates)
    return Bytes(*ways)


def _way(
    samples: Sequence[Sampled], stretches: Sequence[Stretch], address: str, seconds: float
) -> TrafficPath | None:
    def rise(read: Callable[[Peer], float]) -> float:
        counter = counter_of(samples, lambda s: read(s.peers.get(address, Peer())))
        return counter.over(stretches) if counter is not None else 0.0

    busy, sent = rise(lambda peer: peer.busy), rise(lambda peer: peer.busiest_sent)
    if busy <= 0 or sent <= 0:
        return None
    rates = [s.peers[address].rate for s in during(samples, stretches) if address in s.peers]
    rtts = [s.peers[address].rtt for s in samples if address in s.peers]
    return TrafficPath(
        address=address,
        sent=rise(lambda peer: peer.sent),
        bytes_per_second=sent / busy,
        able=max(sent / busy, median(rates) if rates else 0.0),
        share=min(1.0, busy / seconds),
        rtt=min((rtt for rtt in rtts if rtt), default=0.0),
        retransmitted=rise(lambda peer: peer.retransmitted),
    )
