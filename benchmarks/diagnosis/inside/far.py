"""A long way between two machines: frames arrive some milliseconds after they were sent.

    far.py honest INTERFACE         let the machine itself compute checksums and cut up packets
    far.py relay ONE OTHER SECONDS  carry frames between two ports of the switch, later

It stands in for the kernel's netem, which not every machine has. Both ports have to be free
of the bridge.
"""

import array
import fcntl
import select
import socket
import struct
import sys
import time
from collections import deque

ETHTOOL, SET_CHECKSUMS, OFF = 0x8946, 0x17, 0  # linux/sockios.h, linux/ethtool.h
ALL_PROTOCOLS = 3
FRAME = 1 << 16


def honest(interface: str) -> None:
    """Switch off what a real card would do: the relay has none."""
    value = array.array("I", [SET_CHECKSUMS, OFF])
    request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, ETHTOOL, request)


def relay(names: list[str], seconds: float) -> None:
    """Carry frames both ways until somebody ends it."""
    ports = [_port(name) for name in names]
    way = {ports[0]: ports[1], ports[1]: ports[0]}
    under_way: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _, _ = select.select(ports, [], [], wait)
        for port in ready:
            _take_in(port, way[port], under_way, seconds)
        while under_way and under_way[0][0] <= time.monotonic():
            _, out, frame = under_way.popleft()
            out.send(frame)


def _port(name: str) -> socket.socket:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    port.bind((name, 0))
    port.setblocking(False)
    return port


def _take_in(
    port: socket.socket,
    out: socket.socket,
    under_way: "deque[tuple[float, socket.socket, bytes]]",
    seconds: float,
) -> None:
    for _ in range(64):
        try:
            frame, address = port.recvfrom(FRAME)
        except BlockingIOError:
            return
        if address[2] != socket.PACKET_OUTGOING:  # what was sent here comes by again
            under_way.append((time.monotonic() + seconds, out, frame))


if __name__ == "__main__":
    if sys.argv[1] == "honest":
        honest(sys.argv[2])
    else:
        relay(sys.argv[2:4], float(sys.argv[4]))
