"""The interface that carries the exchange on each machine, and what else it carries."""

from collections.abc import Container
from dataclasses import dataclass
from statistics import quantiles

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.counters import counter_of
from unisono.diagnose.evidence.expected_bytes import expected_bytes
from unisono.diagnose.evidence.traffic import LOOPBACK, Bytes, Node
from unisono.diagnose.wording import percent
from unisono.records.monitor_events import Sampled, Traffic
from unisono.units import amount_of_bytes

# Headers of TCP, IP and Ethernet, and the acknowledgements of what comes the other way.
HEADERS = 1.08
MBIT = 8e-6
MUCH_FOREIGN = 0.20  # of what an interface carries


@dataclass(frozen=True)
class LinkUse:
    """What went over one interface for each update.

    `proved` says that it carried at least what the exchange needs; otherwise it is the
    interface that the processes were configured to use. `mbit_per_s` is the rate while there
    was something to send. `foreign` are the bytes an update that the exchange does not explain.
    """

    node: Node
    interface: str
    proved: bool
    bytes: Bytes
    mbit_per_s: float
    foreign: float

    @property
    def nominal_mbit_per_s(self) -> int:
        """Return the nominal rate of the interface, 0 if it does not report one."""
        return self.node.nominal(self.interface)

    @property
    def foreign_per_second(self) -> float:
        """Return the bytes a second that the exchange does not explain."""
        return self.foreign * self.node.updates / self.node.seconds

    def lines(self, expected: float) -> list[str]:
        """Return the evidence in words."""
        each_way = (
            f"{amount_of_bytes(self.bytes.sent)} sent and "
            f"{amount_of_bytes(self.bytes.received)} received an update"
        )
        share = self.bytes.more / expected if expected else 0.0
        verb = "carries the exchange" if self.proved else "does not carry the whole exchange"
        nominal = self.nominal_mbit_per_s
        says = f", a link of {nominal:,} Mbit/s by its own account" if nominal else ""
        lines = [
            f"{self.node.host}: {self.interface} {verb}: {each_way} over "
            f"{self.node.updates:,} updates, {share:.2f} times the formula",
            f"{self.node.host}: {self.mbit_per_s:.0f} Mbit/s while there was something to send "
            f"over {self.interface}{says}",
        ]
        way = self.node.main_way
        if way is not None:
            lines.append(
                f"{self.node.host}: had something to send to {way.address} for "
                f"{percent(way.share)} of the time; the round trip takes "
                f"{1000 * way.rtt:.2f} ms"
            )
        return [*lines, *self._troubles()]

    def _troubles(self) -> list[str]:
        """Return what was lost on the way, if anything was."""
        samples = [
            s.interfaces[self.interface]
            for s in self.node.samples
            if self.interface in s.interfaces
        ]
        way = self.node.main_way
        told = {
            "errors": samples[-1].errors - samples[0].errors if samples else 0,
            "packets dropped": samples[-1].drops - samples[0].drops if samples else 0,
            "packets retransmitted": round(way.retransmitted) if way is not None else 0,
        }
        words = [f"{number:,} {what}" for what, number in told.items() if number > 0]
        return [f"{self.node.host}: {self.interface}: {', '.join(words)}"] if words else []


def link_uses(case: Case) -> tuple[LinkUse, ...]:
    """Return what each sampled machine's link did, if there are several machines."""
    expected = expected_bytes(case)
    if len(case.run.hosts) < 2 or not expected:
        return ()
    uses = (_use(node, expected) for node in case.nodes)
    return tuple(use for use in uses if use is not None)


def loopback_bytes(case: Case) -> float | None:
    """Return the bytes an update through the loopback interface of a run on one machine.

    They never leave the machine, so they are not network traffic. None if not sampled.
    """
    found = [node.carried.get(LOOPBACK) for node in case.nodes]
    here = [carried for carried in found if carried is not None]
    return here[0].sent if here and len(case.run.hosts) == 1 else None


def loopback_line(case: Case) -> str:
    """Say what was sampled of the exchange inside the one machine of a run."""
    carried, expected = loopback_bytes(case), expected_bytes(case)
    if carried is None:
        return "the loopback interface was not sampled, so the formula alone gives the bytes"
    times = f" ({carried / expected:.2f} times the formula)" if expected else ""
    return (
        f"{case.run.hosts[0]}: the loopback interface carried {amount_of_bytes(carried)} an "
        f"update{times}; that traffic stays inside the machine and is not network traffic"
    )


def is_shared(case: Case, hosts: Container[str]) -> bool:
    """Return whether other traffic may be what makes the link of a host slow."""
    ends = [use for use in link_uses(case) if use.node.host in hosts]
    return any(use.foreign > MUCH_FOREIGN * use.bytes.more for use in ends)


def slowest(uses: tuple[LinkUse, ...]) -> LinkUse | None:
    """Return the link with the lowest rate: the exchange goes at its pace."""
    return min(uses, key=lambda use: use.mbit_per_s, default=None)


def _use(node: Node, expected: float) -> LinkUse | None:
    proved = node.carrier(expected)
    interface = proved or node.interface
    if interface not in node.carried:
        return None
    carried, way = node.carried[interface], node.main_way
    needed = node.own.more if node.own is not None and node.own.covers(expected) else expected
    rate = way.bytes_per_second if way is not None else _usual_rate(node, interface)
    return LinkUse(
        node=node,
        interface=interface,
        proved=proved is not None,
        bytes=carried,
        mbit_per_s=MBIT * rate,
        foreign=max(0.0, carried.more - HEADERS * needed),
    )


def _usual_rate(node: Node, interface: str) -> float:
    """Return the bytes a second of the busier moments, from the interface alone."""

    def sent(sample: Sampled) -> float:
        return float(sample.interfaces.get(interface, Traffic()).sent)

    counter = counter_of(node.samples, sent)
    if counter is None:
        return 0.0
    pairs = zip(counter.times, counter.times[1:], strict=False)
    rates = [(counter.at(b) - counter.at(a)) / (b - a) for a, b in pairs if b - a > 0.05]
    return quantiles(rates, n=10)[-1] if len(rates) > 1 else sum(rates)
