"""The store of a run: a table of short texts that process 0 hosts and all processes read.

Torch's store authenticates nobody. It therefore listens on a single address, the one under
which the other machines know process 0. Clocks are compared through the store, too.
"""

import select
import socket
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta

import psutil
from torch._C._distributed_c10d import TCPStore
from torch.distributed.distributed_c10d import Store

from unisono.clock_skew import ClockOffset, measure_offset
from unisono.comm.bootstrap.network import network_by_name, own_addresses
from unisono.comm.waiting import Waiting
from unisono.errors import RunError

BACKLOG = 1024
ACCEPT_POLL_SECONDS = 0.2
STORE_POLL_SECONDS = 0.02
CLOCK_ROUNDS = 3


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
            fix="stop the program that uses the port, or set MASTER_PORT to another one "
            "everywhere",
        ) from error
    return listening


def _holder_of(port: int) -> str:
    """Return which process listens on a port, as far as the system shows it."""
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            taken = connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
            if taken and connection.pid:
                name = psutil.Process(connection.pid).name()
                return f" by {name} (pid {connection.pid})"
    return ""


def listen_as(name: str, port: int, waiting: Waiting) -> socket.socket:
    """Return a socket that listens where others look for this machine, which they call `name`.

    If the name does not tell which network that is, listen on all of them until the first
    other machine connects, then keep only that one.
    """
    network = network_by_name(name)
    if network is not None:
        return listen(network.address, port)
    addresses = own_addresses()
    with ExitStack() as opened:
        sockets = [opened.enter_context(listen(address, port)) for address in addresses]
        while (contacted := _contacted(sockets, addresses)) is None:
            waiting.describe(
                f"{socket.gethostname()} listens on {', '.join(addresses)} port {port}, and no "
                "other machine has connected yet",
                "check that training was started on the others and what it reports there",
            )
            waiting.pause(0)
        # Further connections already wait in its backlog, and the store will accept them.
        return contacted.dup()


def _contacted(sockets: Sequence[socket.socket], own: Sequence[str]) -> socket.socket | None:
    ready, _, _ = select.select(sockets, [], [], ACCEPT_POLL_SECONDS)
    for listening in ready:
        caller, (address, *_) = listening.accept()
        caller.close()
        if address not in own:  # processes of this machine try every address
            return listening
    return None


def host_store(listening: socket.socket) -> TCPStore:
    """Return a store that answers on `listening` and owns that socket from now on."""
    address, port = listening.getsockname()[:2]
    return TCPStore(
        address,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listening.detach(),
    )


def connect_store(address: str, port: int, seconds: float) -> TCPStore:
    """Return the store that another process hosts."""
    return TCPStore(
        address,
        port,
        is_master=False,
        wait_for_workers=False,
        timeout=timedelta(seconds=max(1.0, seconds)),
    )


def read_key(store: Store, key: str) -> bytes | None:
    """Return the value of `key`, or None at once if nobody has set it (`get` would wait)."""
    return bytes(store.get(key)) if store.check([key]) else None


def ask_clock(store: Store, rank: int, waiting: Waiting) -> ClockOffset:
    """Return by how much the clock here is ahead of the clock of the store's host."""
    rounds = iter(range(CLOCK_ROUNDS))

    def read_host_clock() -> float:
        key = f"{rank}/{next(rounds)}"
        store.set(f"clock/request/{key}", "now?")
        while (reply := read_key(store, f"clock/reply/{key}")) is None:
            waiting.pause(STORE_POLL_SECONDS)
        return float(reply)

    return ClockOffset().relative_to(measure_offset(read_host_clock, CLOCK_ROUNDS))


def answer_clock(store: Store, ranks: Iterable[int], answered: Counter[int]) -> None:
    """Answer those of `ranks` that have asked for the time; count the answers in `answered`."""
    for rank in ranks:
        key = f"{rank}/{answered[rank]}"
        if answered[rank] < CLOCK_ROUNDS and store.check([f"clock/request/{key}"]):
            store.set(f"clock/reply/{key}", repr(time.time()))
            answered[rank] += 1
