"""The store of a run: a table of short texts, held by process 0, that all can read.

Torch's store asks nobody who they are. So it listens on one address and on no other.
"""

import socket
from contextlib import suppress
from datetime import timedelta

import psutil
from torch._C._distributed_c10d import TCPStore
from torch.distributed.distributed_c10d import Store

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
