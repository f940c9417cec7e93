"""The kernel knows the way to other machines."""

import socket
from contextlib import suppress

DISCARD = 9  # any port will do: nothing is sent


def source_address(towards: str) -> str:
    """Return this machine's address on the way to another, or "" if there is no way.

    `towards` is a name or an address.
    """
    if not towards:
        return ""
    with suppress(OSError):
        for family, kind, number, _, place in socket.getaddrinfo(
            towards, DISCARD, type=socket.SOCK_DGRAM
        ):
            with suppress(OSError), socket.socket(family, kind, number) as asking:
                asking.connect(place)  # of UDP: decides on the way, sends nothing
                return str(asking.getsockname()[0])
    return ""
