"""Is anybody there? A port is tried, and what is wrong is told in words. No torch here.

Which network the processes of a run use. No torch here.

The kernel knows the way to the other machines. It is asked for the address under which this
machine appears on that way, and that address belongs to one interface.
"""

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

from unisono.errors import ConfigError
from unisono.source_address import source_address

PATIENCE_SECONDS = 2.0


@dataclass(frozen=True)
class PortCheck:
    """What came of it: who answered and who asked, or the trouble and what to check."""

    address: str = ""
    source: str = ""
    trouble: str = ""
    fix: str = ""


def check_port(name: str, port: int, further: Sequence[str] = ()) -> PortCheck:
    """Try a port of the machine `name`, then of `further` addresses, until one answers."""
    addresses = resolve(name)
    troubles = []
    for address in dict.fromkeys((*addresses, *further)):
        found = _try(address, port)
        if found.address:
            return found
        troubles.append(found)
    if not addresses:
        return PortCheck(
            trouble=f"the name {name} is not known here",
            fix=f"add {name} to /etc/hosts or DNS, or set MASTER_ADDR to an address",
        )
    return troubles[0]


def _try(address: str, port: int) -> PortCheck:
    where = f"{address} port {port}"
    try:
        with socket.create_connection((address, port), timeout=PATIENCE_SECONDS) as found:
            return PortCheck(address, str(found.getsockname()[0]))
    except ConnectionRefusedError:
        itself = " (which is this machine itself)" if is_loopback(address) else ""
        return PortCheck(
            trouble=f"{where}{itself} refuses: the machine is up, but nobody listens there yet",
            fix="check that process 0 was started on that machine and has not ended",
        )
    except TimeoutError:
        return PortCheck(
            trouble=f"{where} does not answer",
            fix="check for a firewall in between, and that the address is the right one",
        )
    except OSError as error:
        return PortCheck(
            trouble=f"there is no way to {where}: {error.strerror or error}",
            fix="check the link, that the machine is up, and that the address is right",
        )


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
