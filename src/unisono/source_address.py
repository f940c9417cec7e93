"""The address this machine uses towards another one, by the kernel's routing table."""

import socket
from contextlib import suppress

DISCARD_PORT = 9  # any port will do: nothing is sent


def source_address(towards: str) -> str:
    """Return this machine's address on the route to `towards`, a name or an address.

    Return "" if there is no route.
    """
    if not towards:
        return ""
    with suppress(OSError):
        for family, kind, number, _, target in socket.getaddrinfo(
            towards, DISCARD_PORT, type=socket.SOCK_DGRAM
        ):
            with suppress(OSError), socket.socket(family, kind, number) as asking:
                asking.connect(target)  # with UDP this picks the route and sends nothing
                return str(asking.getsockname()[0])
    return ""
