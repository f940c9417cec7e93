"""Which address of this machine the others can reach, by asking the kernel for the route."""

import socket
from contextlib import suppress

ANY_PORT = 9  # nothing is sent there


def own_address_towards(host: str) -> str:
    """Return this machine's address on the way to `host`, or "" if there is no way."""
    if not host:
        return ""
    with suppress(OSError):
        for family, kind, _, _, place in socket.getaddrinfo(
            host, ANY_PORT, type=socket.SOCK_DGRAM
        ):
            with suppress(OSError), socket.socket(family, kind) as probe:
                probe.connect(place)
                return str(probe.getsockname()[0])
    return ""


def is_loopback(address: str) -> bool:
    """Return whether an address means this machine and no other."""
    return address.startswith(("127.", "::1")) or not address


def listen_on(address: str) -> socket.socket:
    """Return a socket that listens on `address`, and only there, at a free port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, 0), family=family, backlog=256)
