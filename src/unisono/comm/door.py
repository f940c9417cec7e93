"""Where process 0 listens: on one address, the one by which the others call it."""

import select
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from unisono.comm.network import network_by_name, own_addresses
from unisono.comm.store import listen
from unisono.comm.waiting import Waiting

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
