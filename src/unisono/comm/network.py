"""Which network the processes of a run use. No torch here.

The kernel knows the way to the other machines. It is asked for the address under which this
machine appears on that way, and that address belongs to one interface.
"""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from unisono.errors import ConfigError
from unisono.source_address import source_address

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
FAMILIES = socket.AF_INET, socket.AF_INET6


@dataclass(frozen=True)
class Network:
    """An interface, and the address of this machine on it."""

    interface: str
    address: str

    def __str__(self) -> str:
        return f"{self.interface} ({self.address})"


LOOPBACK = Network("lo", "127.0.0.1")


def interfaces() -> dict[str, list[str]]:
    """Return the addresses of every interface of this machine that is up, IPv4 first."""
    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    found: dict[str, list[str]] = {}
    for name, entries in psutil.net_if_addrs().items():
        addresses = [
            e.address for e in entries if e.family in (socket.AF_INET, socket.AF_INET6)
        ]
        if name in up:
            found[name] = sorted(filter(_has_scope, addresses), key=_is_ipv6)
    return found


def own_addresses() -> list[str]:
    """Return the addresses under which other machines may know this one, IPv4 first."""
    addresses = [address for entries in interfaces().values() for address in entries]
    return sorted((a for a in addresses if not is_loopback(a)), key=_is_ipv6)


def resolve(name: str) -> list[str]:
    """Return the addresses of a machine, IPv4 first; none if its name is not known here."""
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted(dict.fromkeys(str(entry[4][0]) for entry in entries), key=_is_ipv6)


def is_loopback(address: str) -> bool:
    """Say whether an address means the machine that uses it."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def says_loopback(name: str) -> bool:
    """Say whether `name` is written as an address of loopback, rather than leads there."""
    try:
        return name == "localhost" or is_loopback(name)
    except ValueError:
        return False


def network_by_name(name: str) -> Network | None:
    """Return the network on which others look for this machine, which they call `name`.

    Debian lets a machine's own name mean loopback to itself. Then it is the only network
    there is, or None if there are several.
    """
    known = [address for address in resolve(name) if not is_loopback(address)]
    if known:
        return network_of(source_address(known[0]) or known[0])
    own = own_addresses()
    if says_loopback(name) or not own:
        return LOOPBACK  # not by a name, but meant: all "machines" are this one
    return network_of(own[0]) if len(own) == 1 else None


def network_of(address: str) -> Network:
    """Return the network on which this machine has `address`."""
    if is_loopback(address):
        return LOOPBACK
    for name, addresses in interfaces().items():
        if address in addresses:
            return Network(name, address)
    return Network("", address)


def asked_network(setting: str, variables: Mapping[str, str]) -> Network | None:
    """Return the network a person asked for, if any; a name that is none is an error.

    Variables count for more than the setting, and what one says holds for both backends.
    NCCL understands patterns, such as `^docker`: they are left to it.
    """
    named = [(variables[name], name) for name in (GLOO, NCCL) if variables.get(name)]
    if setting:
        named.append((setting, "sync.interface"))
    for text, where in named:
        if where == NCCL and (text[0] in "^=" or text not in interfaces()):
            _check_pattern(text)
            continue
        for name in text.split(","):
            _check_name(name, where)
        first = text.split(",")[0]
        return Network(first, interfaces()[first][0])
    return None


def variables_for(network: Network, variables: Mapping[str, str]) -> dict[str, str]:
    """Return what tells the backends which interface to use, where nobody has told them."""
    names = [name for name in (GLOO, NCCL) if not variables.get(name)]
    return dict.fromkeys(names, network.interface) if network.interface else {}


def _check_name(name: str, where: str) -> None:
    if not interfaces().get(name):
        missing = "has no address" if name in interfaces() else "is not up or does not exist"
        raise ConfigError(
            f"the network interface `{name}` {missing} on {socket.gethostname()}",
            where=where,
            fix=f"choose one of {_known()}, or leave it out: the kernel knows the way",
        )


def _check_pattern(text: str) -> None:
    prefixes = text.removeprefix("=").split(",")
    if not text.startswith("^") and not any(
        name.startswith(prefix) for name in interfaces() for prefix in prefixes
    ):
        _check_name(text, NCCL)


def _known() -> str:
    return ", ".join(f"{name} ({a[0]})" for name, a in interfaces().items() if a)


def _is_ipv6(address: str) -> bool:
    return ":" in address


def _has_scope(address: str) -> bool:
    return not ipaddress.ip_address(address.partition("%")[0]).is_link_local
