"""What the run's own TCP connections have carried, as the kernel counts it. Linux only.

The counters of an interface mix the bytes of all programs. Those of a connection do not, and
they say how long it had data to send: its bytes over that time are the rate of the path.
"""

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from unisono.records.monitor_events import Peer

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
NETLINK_SOCK_DIAG, BY_FAMILY, DUMP = 4, 20, 0x301
DONE, FAILURE = 3, 2
TCP_INFO, ESTABLISHED = 2, 1 << 1
HEADER, REQUEST = struct.Struct("=IHHII"), struct.Struct("=BBBxI48x")
# inet_diag_msg: family, ports, addresses and the number of the socket.
ENTRY, ATTRIBUTE = struct.Struct("=B3x4x16s16s12x16xI"), struct.Struct("=HH")
# tcp_info: where its members are; an older kernel has fewer of them.
RETRANSMITTED, ACKNOWLEDGED, SMALLEST_RTT, DELIVERED, BUSY = 100, 120, 148, 160, 168
MICROSECOND = 1e-6
ANSWER_BYTES, ANSWER_SECONDS = 1 << 16, 1.0


@dataclass(frozen=True)
class Connection:
    """One connection: bytes, and the seconds for which there was data to send.

    They leave out the time in which the receiver accepted nothing. `rate` is the kernel's
    estimate of what the path can carry, in bytes a second, from the last acknowledgements.
    """

    inode: int
    address: str
    sent: int = 0
    received: int = 0
    busy: float = 0.0
    rate: float = 0.0
    retransmitted: int = 0
    rtt: float = 0.0


@dataclass(frozen=True)
class Busiest:
    """What the busiest connection to an address did, summed over the samples."""

    sent: int = 0
    busy: float = 0.0
    rate: float = 0.0


@dataclass
class Connections:
    """The TCP connections of some processes, summed by remote address."""

    pids: Sequence[int]
    _ours: set[int] = field(default_factory=set)
    _others: set[int] = field(default_factory=set)
    _known: dict[int, Connection] = field(default_factory=dict)
    _busiest: dict[str, Busiest] = field(default_factory=dict)

    def look(self) -> dict[str, Peer]:
        """Return bytes to and from each address, those of closed connections included."""
        try:
            found = list(established())
        except OSError:  # another system, or not allowed
            return {}
        self._tell_apart({one.inode for one in found})
        now = {one.inode: one for one in found if one.inode in self._ours}
        before, self._known = self._known, self._known | now
        addresses = {one.address for one in self._known.values()}
        for address in addresses:
            here = [one for one in now.values() if one.address == address]
            self._add_busiest(address, here, before)
        return {address: self._peer(address) for address in sorted(addresses)}

    def _tell_apart(self, inodes: set[int]) -> None:
        # Finding the owner of a connection costs more than reading its counters: only once.
        self._others &= inodes
        if inodes - self._ours - self._others:
            self._ours = {inode for pid in self.pids for inode in sockets_of(pid)}
            self._others = inodes - self._ours

    def _add_busiest(
        self, address: str, here: Sequence[Connection], before: dict[int, Connection]
    ) -> None:
        """Add what the connection that sent most since the last sample has done.

        It may be another one each time; the sum never falls.
        """
        news = [(one, before.get(one.inode, Connection(one.inode, address))) for one in here]
        if not news:
            return
        most, then = max(news, key=lambda pair: pair[0].sent - pair[1].sent)
        old = self._busiest.get(address, Busiest())
        self._busiest[address] = Busiest(
            sent=old.sent + most.sent - then.sent,
            busy=old.busy + max(0.0, most.busy - then.busy),
            rate=most.rate,
        )

    def _peer(self, address: str) -> Peer:
        ways = [one for one in self._known.values() if one.address == address]
        most = self._busiest.get(address, Busiest())
        rtts = [one.rtt for one in ways if one.rtt]
        return Peer(
            sent=sum(one.sent for one in ways),
            received=sum(one.received for one in ways),
            busy=round(most.busy, 3),
            busiest_sent=most.sent,
            rate=most.rate,
            retransmitted=sum(one.retransmitted for one in ways),
            rtt=round(min(rtts), 6) if rtts else 0.0,
        )


def sockets_of(pid: int) -> Iterator[int]:
    """Yield the numbers of the sockets that a process has open."""
    directory = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(directory):  # noqa: PTH208  a path for each would cost more
            with suppress(OSError):
                target = os.readlink(f"{directory}/{name}")  # noqa: PTH115  likewise
                if target.startswith("socket:["):
                    yield int(target[8:-1])


def established() -> Iterator[Connection]:
    """Yield every TCP connection of this machine's network."""
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        raise OSError("this system has no netlink")
    with socket.socket(family, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asked:
        asked.settimeout(ANSWER_SECONDS)
        for number in (socket.AF_INET, socket.AF_INET6):
            request = REQUEST.pack(number, socket.IPPROTO_TCP, 1 << (TCP_INFO - 1), ESTABLISHED)
            head = HEADER.pack(HEADER.size + len(request), BY_FAMILY, DUMP, 1, 0)
            asked.send(head + request)
            yield from _answers(asked)


def _answers(asked: socket.socket) -> Iterator[Connection]:
    while True:
        for kind, body in _messages(asked.recv(ANSWER_BYTES)):
            if kind == DONE:
                return
            if kind == FAILURE:
                raise OSError("the kernel does not report connections")
            yield connection_of(body)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= HEADER.size:
        length, kind, *_ = HEADER.unpack_from(data)
        if length < HEADER.size:
            return
        yield kind, data[HEADER.size : length]
        data = data[_aligned(length) :]


def connection_of(body: bytes) -> Connection:
    """Return the connection that one message of the kernel describes."""
    family, _, remote, inode = ENTRY.unpack_from(body)
    size = 4 if family == socket.AF_INET else 16
    address = socket.inet_ntop(family, remote[:size])
    info = next((v for k, v in _attributes(body[ENTRY.size :]) if k == TCP_INFO), b"")
    sent, received = _numbers(info, ACKNOWLEDGED, "=QQ")
    busy, held_up = _numbers(info, BUSY, "=QQ")
    return Connection(
        inode=inode,
        address=address.removeprefix("::ffff:"),
        sent=sent,
        received=received,
        busy=max(0, busy - held_up) * MICROSECOND,
        rate=next(iter(_numbers(info, DELIVERED, "=Q"))),
        retransmitted=next(iter(_numbers(info, RETRANSMITTED, "=I"))),
        rtt=next(iter(_numbers(info, SMALLEST_RTT, "=I"))) * MICROSECOND,
    )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        if length < ATTRIBUTE.size:
            return
        yield kind, data[ATTRIBUTE.size : length]
        data = data[_aligned(length) :]


def _numbers(info: bytes, place: int, form: str) -> Iterable[int]:
    if len(info) < place + struct.calcsize(form):
        return (0,) * (len(form) - 1)
    return struct.unpack_from(form, info, place)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
