"""The rendezvous of torchrun's agents: who holds its store, where, and who is still missing.

Left alone, an agent's store listens on every network of its machine, and nobody holds it at
all where a host name means loopback. Ours is made here, on one address, and torchrun is only
told where it is.
"""

import os
import socket
import uuid
from argparse import Namespace
from dataclasses import dataclass

from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.run import parse_min_max_nnodes

from unisono.comm.door import open_door
from unisono.comm.expected import NODES
from unisono.comm.knock import knock
from unisono.comm.muster import Watch, announce, check_clock
from unisono.comm.network import LOOPBACK, resolve
from unisono.comm.store import host_store, listen, visit_store
from unisono.comm.waiting import Tell, Waiting, wait_aloud
from unisono.errors import RunError

START_SECONDS = 300
USUAL_PORT = 29400  # torchrun's own
TRY_EVERY_SECONDS = 0.1


@dataclass(frozen=True)
class Kept:
    """The store of the agents, and who watches in it for machines that are missing."""

    store: Store
    watch: Watch | None = None

    def close(self) -> None:
        """End the watch."""
        if self.watch:
            self.watch.close()


def prepare_rendezvous(options: Namespace, tell: Tell) -> Kept | None:
    """Make or find the store of the agents, and change torchrun's options to use it.

    Returns what has to be kept until torchrun has ended, and to be closed then.
    """
    # A restarted worker must not find the addresses of its dead peers in the store.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    least, most = parse_min_max_nnodes(options.nnodes)
    if least == most:
        os.environ[NODES] = str(least)
    if _is_alone(options, most):
        return Kept(_host_alone(options))
    if options.rdzv_backend != "c10d" or "is_host" not in _conf(options):
        return None  # started by hand in a way of its own
    _set_conf(options, "join_timeout", str(START_SECONDS), anew=False)
    hosts = _conf(options)["is_host"].lower() in ("1", "true", "t", "yes", "y")
    store = _host(options, tell) if hosts else _visit(options, tell)
    roll = PrefixStore("unisono", store)
    number = announce(roll)
    kept = Kept(store, Watch(roll, least, tell, holds=hosts))
    if not hosts:
        try:
            check_clock(roll, number, tell)
        except RunError:
            kept.close()
            raise
    return kept


def _is_alone(options: Namespace, most: int) -> bool:
    if options.standalone:
        return True
    static = options.rdzv_backend == "static" and not options.rdzv_endpoint
    return static and options.master_port is None and most == 1


def _host_alone(options: Namespace) -> Store:
    store = host_store(listen(LOOPBACK.address, 0))
    options.standalone, options.rdzv_backend = False, "c10d"
    options.rdzv_id = str(uuid.uuid4())
    options.local_addr = options.local_addr or LOOPBACK.address
    _point_to(options, LOOPBACK.address, store.port)
    return store


def _host(options: Namespace, tell: Tell) -> Store:
    name, port = _endpoint(options)
    given = resolve(options.local_addr or "") if options.local_addr else []
    seconds = float(_conf(options)["join_timeout"])

    def open_it(waiting: Waiting) -> socket.socket:
        return listen(given[0], port) if given else open_door(name, port, waiting)

    listening = wait_aloud(open_it, f"port {port} of {name} is not open yet", seconds, tell)
    address = str(listening.getsockname()[0])
    options.local_addr = options.local_addr or address
    _point_to(options, address, port)
    return host_store(listening)


def _visit(options: Namespace, tell: Tell) -> Store:
    name, port = _endpoint(options)
    here = socket.gethostname()

    def find(waiting: Waiting) -> Store:
        while not (found := knock(name, port)).address:
            waiting.describe(
                f"{here} waits for the first machine at {name} port {port}: {found.trouble}",
                found.fix.replace("process 0 was", "training was"),
            )
            waiting.pause(TRY_EVERY_SECONDS)
        options.local_addr = options.local_addr or found.source
        _point_to(options, found.address, port)
        return visit_store(found.address, port, waiting.seconds_left)

    what = f"{here} is looking for the first machine at {name} port {port}"
    return wait_aloud(find, what, float(_conf(options)["join_timeout"]), tell)


def _endpoint(options: Namespace) -> tuple[str, int]:
    name, _, port = str(options.rdzv_endpoint).rpartition(":")
    if not name:
        return port, USUAL_PORT
    return name.strip("[]"), int(port)


def _point_to(options: Namespace, address: str, port: int) -> None:
    host = f"[{address}]" if ":" in address else address
    options.rdzv_endpoint = f"{host}:{port}"
    _set_conf(options, "is_host", "0")


def _conf(options: Namespace) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in (options.rdzv_conf or "").split(",") if pair)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _set_conf(options: Namespace, name: str, value: str, *, anew: bool = True) -> None:
    conf = _conf(options)
    if anew or name not in conf:
        conf[name] = value
    options.rdzv_conf = ",".join(f"{key}={text}" for key, text in conf.items())
