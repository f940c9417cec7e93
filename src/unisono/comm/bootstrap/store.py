"""The store of a run: a table of short texts that process 0 hosts and all processes read.

It refuses whoever does not know the secret of the run (`secure_store`), if the launcher handed
one over. It listens on one address only, by which the other machines know process 0; on one
machine, at a Unix socket that other users do not reach. Clocks are compared through it, too.
"""

import os
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
from unisono.comm.bootstrap.secure_store import CALL_SECONDS, join_store, serve_store
from unisono.comm.waiting import Notify, Waiting, no_notice
from unisono.errors import RunError
from unisono.secure.channel import Endpoint
from unisono.secure.secret import secret_of

BACKLOG = 1024
ACCEPT_POLL_SECONDS = 0.2
STORE_POLL_SECONDS = 0.02
STORE_CONNECT_SECONDS, STORE_RETRY_SECONDS = 10.0, 1.0
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


def host_store(listening: socket.socket, path: str = "", notify: Notify = no_notice) -> Store:
    """Return a store that answers on `listening` and owns that socket from now on.

    A Unix socket listens at `path`. `notify` is called about clients without the secret.
    """
    endpoint = path or listening.getsockname()[:2]
    return serve_store(listening, endpoint, secret_of(os.environ), notify)


def try_store(
    endpoint: Endpoint, waiting: Waiting, call_seconds: float = CALL_SECONDS
) -> Store | None:
    """Return the store that another process hosts, or None after a while: try again then.

    `call_seconds` is how long any answer of that store may take.
    """
    seconds = max(1.0, min(STORE_CONNECT_SECONDS, waiting.seconds_left))
    try:
        return join_store(endpoint, secret_of(os.environ), seconds, call_seconds)
    except RuntimeError as error:
        where = endpoint if isinstance(endpoint, str) else f"{endpoint[0]} port {endpoint[1]}"
        waiting.describe(
            f"{where} answers, but not as the store of this run: {error}",
            "another program may use the port: set MASTER_PORT to another one everywhere; or "
            "this process was started with another secret",
        )
        waiting.pause(STORE_RETRY_SECONDS)
        return None


def connect_torch_store(address: str, port: int, seconds: float) -> Store:
    """Return the store of a torchrun that is not ours: it answers everybody."""
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
