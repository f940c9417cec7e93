"""What Slurm knows of its nodes. No torch here."""

import socket
import subprocess

from unisono.errors import RunError


def first_slurm_host(hosts: str) -> str:
    """Return an address of the first node of a list such as `n[1-3]`."""
    return _address(_names(hosts)[0])


def slurm_hosts(hosts: str) -> list[str]:
    """Return an address of every node of a list; none if there is no list."""
    return [_address(name) for name in _names(hosts)] if hosts else []


def _names(hosts: str) -> list[str]:
    return _scontrol("show", "hostnames", hosts).split()


def _address(name: str) -> str:
    # Names that Slurm uses need not be known to anybody else; then it knows an address.
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        facts = dict(
            word.split("=", 1)
            for word in _scontrol("show", "node", "-o", name).split()
            if "=" in word
        )
        return facts.get("NodeAddr", name)
    return name


def _scontrol(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["scontrol", *arguments], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RunError(
            f"`scontrol {' '.join(arguments)}` does not answer: {error}",
            where="Slurm",
            fix="set MASTER_ADDR to the address of the machine of process 0",
        ) from error
    return done.stdout
