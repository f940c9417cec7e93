"""Is anybody there? A port is tried, and what is wrong is told in words. No torch here."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from unisono.comm.network import is_loopback, resolve

PATIENCE_SECONDS = 2.0


@dataclass(frozen=True)
class Knock:
    """What came of it: who answered and who asked, or the trouble and what to check."""

    address: str = ""
    source: str = ""
    trouble: str = ""
    fix: str = ""


def knock(name: str, port: int, further: Sequence[str] = ()) -> Knock:
    """Try a port of the machine `name`, then of `further` addresses, until one answers."""
    addresses = resolve(name)
    troubles = []
    for address in dict.fromkeys((*addresses, *further)):
        found = _try(address, port)
        if found.address:
            return found
        troubles.append(found)
    if not addresses:
        return Knock(
            trouble=f"the name {name} is not known here",
            fix=f"add {name} to /etc/hosts or DNS, or set MASTER_ADDR to an address",
        )
    return troubles[0]


def _try(address: str, port: int) -> Knock:
    where = f"{address} port {port}"
    try:
        with socket.create_connection((address, port), timeout=PATIENCE_SECONDS) as found:
            return Knock(address, str(found.getsockname()[0]))
    except ConnectionRefusedError:
        itself = " (which is this machine itself)" if is_loopback(address) else ""
        return Knock(
            trouble=f"{where}{itself} refuses: the machine is up, but nobody listens there yet",
            fix="check that process 0 was started on that machine and has not ended",
        )
    except TimeoutError:
        return Knock(
            trouble=f"{where} does not answer",
            fix="check for a firewall in between, and that the address is the right one",
        )
    except OSError as error:
        return Knock(
            trouble=f"there is no way to {where}: {error.strerror or error}",
            fix="check the link, that the machine is up, and that the address is right",
        )
