"""What a laboratory looks like, validated before anything is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from unisono.errors import ConfigError
from unisono.units import BIT_UNITS, amount

MOST_NODES = 64
NETWORK = "10.88.0"
INTERFACE = "eth0"
# What a link lets through at once after a pause: a few milliseconds at its rate, but at least
# a few packets. Splitting the 64 KiB that TCP hands over at once costs time, which matters
# from 100 Mbit/s on; much faster links need more, because the kernel's timer has a period.
LARGEST_PACKET = 1514
SMALL_BURST, LARGE_BURST = 8 * 1024, 64 * 1024
SLOW_SECONDS, FAST_SECONDS = 0.005, 0.001

BURST_UNITS = {"b": 1, "kb": 1024, "mb": 1024**2}
DELAY_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class LabPlan:
    """Machines called node0, node1, …, each connected to one switch by its own cable.

    `link` is the rate of every cable in both directions ("" for no limit); `link_from` is
    the rate at which single nodes send instead. `burst` is how much may pass at once after a
    pause. `delay` applies to every packet a node sends, so a round trip takes it twice.
    """

    nodes: int = 2
    workers_per_node: int = 1
    link: str = ""
    link_from: Mapping[int, str] = field(default_factory=dict)
    burst: str = ""
    delay: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MOST_NODES:
            raise ConfigError(
                f"a laboratory cannot have {self.nodes} nodes",
                where="--nodes",
                fix=f"ask for 1 to {MOST_NODES}",
            )
        for node in self.link_from:
            self.check_node(node, where="--link-from")
        for node in range(self.nodes):
            self.shape_sent(node)
            self.shape_received(node)

    def check_node(self, node: int, *, where: str) -> None:
        """Raise an error if there is no such node."""
        if not 0 <= node < self.nodes:
            raise ConfigError(
                f"there is no node {node}",
                where=where,
                fix=f"nodes are numbered from 0 to {self.nodes - 1}",
            )

    def shape_sent(self, node: int) -> "Shape":
        """Return the limits on what `node` sends."""
        rate = self.link_from.get(node, self.link)
        where = "--link-from" if node in self.link_from else "--link"
        return shape_of(rate, self.burst, self.delay, where=where)

    def shape_received(self, node: int) -> "Shape":
        """Return the limits on what `node` receives: the rate of its cable."""
        return shape_of(self.link, self.burst)


@dataclass(frozen=True)
class Shape:
    """Limits of one direction of a cable; zero is no limit."""

    bits_per_second: float = 0.0
    burst_bytes: int = 0
    delay_seconds: float = 0.0


def shape_of(rate: str, burst: str = "", delay: str = "", *, where: str = "--link") -> Shape:
    """Parse the limits that a user writes as "100mbit", "64kb" and "5ms"."""
    bits = amount(rate, BIT_UNITS, where, '"100mbit" or "1.5gbit"') if rate else 0.0
    usual = usual_burst(bits / 8)
    burst_bytes = (
        int(amount(burst, BURST_UNITS, "--burst", '"64kb" or "1mb"')) if burst else usual
    )
    if burst_bytes < LARGEST_PACKET:
        raise ConfigError(
            f"a burst of {burst_bytes} bytes is less than one packet",
            where="--burst",
            fix='give at least "2kb"; the usual is "64kb"',
        )
    seconds = amount(delay, DELAY_UNITS, "--delay", '"5ms" or "200us"') if delay else 0.0
    return Shape(bits, burst_bytes if bits else 0, seconds)


def usual_burst(bytes_per_second: float) -> int:
    """Return the default burst of a link of this rate, in bytes."""
    slow = min(LARGE_BURST, int(bytes_per_second * SLOW_SECONDS))
    return max(SMALL_BURST, slow, int(bytes_per_second * FAST_SECONDS))


def name_of(node: int) -> str:
    """Return the host name of a node."""
    return f"node{node}"


def address_of(node: int) -> str:
    """Return the address of a node, which is visible only inside the laboratory."""
    return f"{NETWORK}.{node + 1}"


def hosts_file(nodes: int) -> str:
    """Return the /etc/hosts of every node."""
    lines = [
        # torch's store listens on IPv6 and looks up who connected as in the second line; that
        # has a name of its own, so that no lookup of the node returns this address.
        f"{address_of(node)} {name_of(node)}\n::ffff:{address_of(node)} {name_of(node)}.lab"
        for node in range(nodes)
    ]
    return "\n".join(["127.0.0.1 localhost", *lines])
