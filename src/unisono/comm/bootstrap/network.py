"""Which network interface a run uses, and whether a port can be reached. No torch here.

The kernel knows the route to the other machines. `source_address` asks it for the address this
machine has on that route, and that address belongs to one interface.
"""

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

from unisono.errors import ConfigError
from unisono.source_address import source_address

PORT_CHECK_SECONDS = 2.0
GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
ADDRESS_FAMILIES = socket.AF_INET, socket.AF_INET6


@dataclass(frozen=True)
class PortCheck:
    """The address that answered and the address it was asked from, or what is wrong.

    `trouble` says in words why nothing answered, `fix` what to check.
    """

    address: str = ""
    source: str = ""
    trouble: str = ""
    fix: str = ""


def check_port(name: str, port: int, further: Sequence[str] = ()) -> PortCheck:
    """Try a port of the machine `name`, then of `further` addresses, until one answers."""
    addresses = resolve(name)
    troubles = []
    for address in dict.fromkeys((*addresses, *further)):
        found = _try_port(address, port)
        if found.address:
            return found
        troubles.append(found)
    if not addresses:
        return PortCheck(
            trouble=f"this machine cannot resolve the name {name}",
            fix=f"add {name} to /etc/hosts or DNS, or set MASTER_ADDR to an address",
        )
    return troubles[0]


def _try_port(address: str, port: int) -> PortCheck:
    where = f"{address} port {port}"
    try:
        with socket.create_connection((address, port), timeout=PORT_CHECK_SECONDS) as found:
            return PortCheck(address, str(found.getsockname()[0]))
    except ConnectionRefusedError:
        itself = " (which is this machine itself)" if is_loopback(address) else ""
        return PortCheck(
            trouble=f"{where}{itself} refuses: the machine is up, but nothing listens yet",
            fix="check that process 0 was started on that machine and still runs",
        )
    except TimeoutError:
        return PortCheck(
            trouble=f"{where} does not answer",
            fix="check for a firewall in between, and that the address is correct",
        )
    except OSError as error:
        return PortCheck(
            trouble=f"there is no route to {where}: {error.strerror or error}",
            fix="check the link, that the machine is up, and that the address is correct",
        )


@dataclass(frozen=True)
class Network:
    """An interface, and the address of this machine on it."""

    interface: str
    address: str

    def __str__(self) -> str:
        return f"{self.interface} ({self.address})"


LOOPBACK_NETWORK = Network("lo", "127.0.0.1")


def interfaces() -> dict[str, list[str]]:
    """Return the addresses of every interface of this machine that is up, IPv4 first."""
    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    found: dict[str, list[str]] = {}
    for name, entries in psutil.net_if_addrs().items():
        addresses = [e.address for e in entries if e.family in ADDRESS_FAMILIES]
        if name in up:
            found[name] = sorted(filter(_has_scope, addresses), key=_is_ipv6)
    return found


def own_addresses() -> list[str]:
    """Return the addresses under which other machines may know this one, IPv4 first."""
    addresses = [address for entries in interfaces().values() for address in entries]
    return sorted((a for a in addresses if not is_loopback(a)), key=_is_ipv6)


def resolve(name: str) -> list[str]:
    """Return the addresses of a machine, IPv4 first; none if its name cannot be resolved."""
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted(dict.fromkeys(str(entry[4][0]) for entry in entries), key=_is_ipv6)


def is_loopback(address: str) -> bool:
    """Return whether an address means the machine that uses it."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def is_written_as_loopback(name: str) -> bool:
    """Return whether `name` is itself a loopback address, rather than resolves to one."""
    try:
        return name == "localhost" or is_loopback(name)
    except ValueError:
        return False


def network_by_name(name: str) -> Network | None:
    """Return the network on which others look for this machine, which they call `name`.

    On Debian a machine's own name resolves to loopback on that machine. Then return the only
    network there is, or None if there are several.
    """
    known = [address for address in resolve(name) if not is_loopback(address)]
    if known:
        return network_of(source_address(known[0]) or known[0])
    own = own_addresses()
    if is_written_as_loopback(name) or not own:
        return LOOPBACK_NETWORK  # written on purpose: all "machines" are this one
    return network_of(own[0]) if len(own) == 1 else None


def network_of(address: str) -> Network:
    """Return the network on which this machine has `address`."""
    if is_loopback(address):
        return LOOPBACK_NETWORK
    for name, addresses in interfaces().items():
        if address in addresses:
            return Network(name, address)
    return Network("", address)


def requested_network(setting: str, variables: Mapping[str, str]) -> Network | None:
    """Return the network the user asked for, if any; an unknown interface is an error.

    Variables override the setting, and each of them holds for both backends. Patterns that
    only NCCL understands, such as `^docker`, are left to NCCL.
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


def backend_variables(network: Network, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that select `network` for the backends, unless already set."""
    if not network.interface:
        return {}
    # NCCL takes a name for the beginning of a name: "eth1" would also mean "eth10".
    chosen = {GLOO: network.interface, NCCL: f"={network.interface}"}
    return {name: value for name, value in chosen.items() if not variables.get(name)}


def _check_name(name: str, where: str) -> None:
    if not interfaces().get(name):
        missing = "has no address" if name in interfaces() else "is not up or does not exist"
        raise ConfigError(
            f"the network interface `{name}` {missing} on {socket.gethostname()}",
            where=where,
            fix=f"choose one of {_known()}, or leave it out: the kernel knows the route",
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
