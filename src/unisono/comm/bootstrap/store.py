"""The store of a run: a table of short texts, held by process 0, that all can read.

Torch's store asks nobody who they are. So it listens on one address and on no other.

Where process 0 listens: on one address, the one by which the others call it.
"""

import select
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta

import psutil
from torch._C._distributed_c10d import TCPStore
from torch.distributed.distributed_c10d import Store

from unisono.comm.bootstrap.network import network_by_name, own_addresses
from unisono.comm.waiting import Waiting
from unisono.errors import RunError

BACKLOG = 1024


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens on one address; a port that is taken is an error."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise RunError(
            f"cannot listen on {address} port {port}: {error.strerror}{_holder_of(port)}",
            where=f"process 0 on {socket.gethostname()}",
            fix="end what uses the port, or set MASTER_PORT to another one everywhere",
        ) from error
    return listening


def host_store(listening: socket.socket) -> TCPStore:
    """Return a store that answers on a socket, which is its own from now on."""
    address, port = listening.getsockname()[:2]
    return TCPStore(
        address,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listening.detach(),
    )


def visit_store(address: str, port: int, seconds: float) -> TCPStore:
    """Return the store that another process holds."""
    return TCPStore(
        address,
        port,
        is_master=False,
        wait_for_workers=False,
        timeout=timedelta(seconds=max(1.0, seconds)),
    )


def read(store: Store, key: str) -> bytes | None:
    """Return what stands under `key`, or None; without waiting for it, as `get` would."""
    return bytes(store.get(key)) if store.check([key]) else None


def _holder_of(port: int) -> str:
    """Say who listens on a port, if the system tells us."""
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            taken = connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
            if taken and connection.pid:
                name = psutil.Process(connection.pid).name()
                return f" by {name} (pid {connection.pid})"
    return ""


LOOK_EVERY_SECONDS = 0.2


def open_door(name: str, port: int, waiting: Waiting) -> socket.socket:
    """Return a socket that listens where others look for this machine, which they call `name`.

    If that cannot be known, the first of them to call shows it.
    """
    network = network_by_name(name)
    if network is not None:
        return listen(network.address, port)
    return _first_called(own_addresses(), port, waiting)


def _first_called(addresses: Sequence[str], port: int, waiting: Waiting) -> socket.socket:
    with ExitStack() as others:
        doors = [others.enter_context(listen(address, port)) for address in addresses]
        while (called := _called(doors, addresses)) is None:
            waiting.describe(
                f"{socket.gethostname()} listens on {', '.join(addresses)} port {port}, and no "
                "other machine has called yet",
                "check that training was started on the others and what it says there",
            )
            waiting.pause(0)
        # What has called on it meanwhile still waits there, and the store will answer.
        return called.dup()


def _called(doors: Sequence[socket.socket], own: Sequence[str]) -> socket.socket | None:
    ready, _, _ = select.select(doors, [], [], LOOK_EVERY_SECONDS)
    for door in ready:
        caller, (address, *_) = door.accept()
        caller.close()
        if address not in own:  # a process of this machine tries all doors
            return door
    return None
