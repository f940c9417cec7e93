"""What Slurm knows of its nodes. No torch here."""

import socket
import subprocess

from unisono.errors import RunError


def first_slurm_host(hosts: str) -> str:
    """Return an address of the first node of a list such as `n[1-3]`.

    Names that Slurm uses need not be known to anybody else; then it knows an address.
    """
    name = _scontrol("show", "hostnames", hosts).split()[0]
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
