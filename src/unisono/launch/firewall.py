"""A firewall rule that admits only the machines of a run to its ports, by the program `nft`.

gloo and NCCL authenticate nobody, so this is the way to keep strangers from their ports, which
the kernel chooses. The rule refuses new connections only, and leaves all other ports alone.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address

from unisono.errors import RunError

KERNEL_PORTS = "32768-60999"  # what Linux chooses from, unless configured otherwise
FIREWALL_SECONDS = 30.0
_LOOPBACK = {"ip": "127.0.0.0/8", "ip6": "::1"}


def firewall_rules(port: int, machines: Sequence[str]) -> str:
    """Return the rules for `nft`: only `machines`, by address, may open connections."""
    for machine in machines:
        if not _is_address(machine):
            raise RunError(
                f"the firewall needs addresses, and {machine} is none",
                where="--firewall",
                fix="give an address that means the same on all machines with --address",
            )
    rules = []
    for family, loopback in _LOOPBACK.items():
        admitted = [loopback, *(one for one in machines if (":" in one) == (family == "ip6"))]
        rules.append(
            f"tcp dport {{ {port}, {KERNEL_PORTS} }} tcp flags & (syn | ack) == syn "
            f"{family} saddr != {{ {', '.join(admitted)} }} drop; "
        )
    name = _table(port)
    chain = f"type filter hook input priority -5; {''.join(rules)}"
    # What an earlier run may have left behind is replaced.
    return (
        f"add table {name}; delete table {name}; table {name} {{ chain input {{ {chain}}}; }}"
    )


def removal(port: int) -> str:
    """Return what `nft` is to do to take the rules back."""
    return f"delete table {_table(port)}"


@contextmanager
def admitting_only(machines: Sequence[str], port: int) -> Iterator[None]:
    """Set the rules on this machine, and take them back in the end."""
    _nft(firewall_rules(port, machines))
    try:
        yield
    finally:
        _nft(removal(port))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _table(port: int) -> str:
    return f"inet unisono_{port}"


def _nft(text: str) -> None:
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    program = shutil.which("nft", path=places)
    reason, fix = "there is no program nft", "install it: apt-get install nftables"
    if program is not None:
        done = subprocess.run(
            [program, text],
            capture_output=True,
            text=True,
            timeout=FIREWALL_SECONDS,
            check=False,
        )
        if not done.returncode:
            return
        reason = done.stderr.strip().partition("\n")[0]
        fix = "it needs root; leave --firewall out, and have the rules set by whoever may"
    raise RunError(f"cannot set the firewall: {reason}", where="--firewall", fix=fix)
