"""How the processes of a run find process 0 and its store, whichever launcher started them.

Under torchrun, its agents already have a store. That one outlives the workers, and what a dead
worker left in it misleads its successors: with gloo, 1 of 7 restarts came up. It therefore
holds nothing but the address of process 0, which process 0 renews at every start, and which
the others read again if it leads nowhere.
"""

import os
import socket
from dataclasses import dataclass

import msgspec
from torch.distributed.distributed_c10d import PrefixStore, Store

from unisono.comm.bootstrap.launcher_env import LauncherEnv
from unisono.comm.bootstrap.network import (
    LOOPBACK_NETWORK,
    Network,
    PortCheck,
    check_port,
    is_loopback,
    network_of,
    own_addresses,
    requested_network,
    resolve,
)
from unisono.comm.bootstrap.roll_call import RollCall
from unisono.comm.bootstrap.seats import DeviceSeat
from unisono.comm.bootstrap.store import (
    STORE_CONNECT_SECONDS,
    connect_torch_store,
    host_store,
    listen,
    listen_as,
    read_key,
    try_store,
)
from unisono.comm.waiting import Notify, Waiting, no_notice
from unisono.errors import PeerFailedError, RunError
from unisono.secure.channel import Endpoint
from unisono.secure.private_socket import is_served, listen_private, private_path
from unisono.source_address import source_address

LEADER_POLL_SECONDS = 0.1


class LeaderAddress(msgspec.Struct, frozen=True):
    """Where process 0 listens."""

    address: str
    port: int


class TorchrunStore:
    """The store of torchrun's agents, connected to as soon as it answers."""

    def __init__(self, address: str, port: int, rank: int, waiting: Waiting) -> None:
        while not (found := check_port(address, port)).address:
            waiting.describe(
                f"process {rank} waits for torchrun's store at {address}: {found.trouble}",
                "check that torchrun still runs on the first machine, and that nothing "
                "keeps this machine from that port",
            )
            waiting.pause(LEADER_POLL_SECONDS)
        store = connect_torch_store(found.address, port, STORE_CONNECT_SECONDS)
        self._store: Store = PrefixStore("unisono", store)
        self._rank, self.source = rank, found.source

    def publish_leader(self, leader: LeaderAddress) -> None:
        """Publish where process 0 listens."""
        self._store.set("leader", msgspec.json.encode(leader).decode())

    def leader(self) -> LeaderAddress | None:
        """Return where process 0 listens, if it has published that; it may be outdated."""
        text = read_key(self._store, "leader")
        return msgspec.json.decode(text, type=LeaderAddress) if text else None

    def publish_worker(self) -> None:
        """Publish the address from which this process reaches the store."""
        self._store.set("worker", self.source)

    def worker_address(self) -> str:
        """Return the address of a process on another machine, or ""."""
        return (read_key(self._store, "worker") or b"").decode()


@dataclass(frozen=True)
class FoundLeader:
    """The result: a store for this start alone, the network to use, and warnings."""

    store: Store
    network: Network
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeaderSearch:
    """The search for process 0, as one of the processes sees it.

    Process 0 listens at `address` and `port`; if `has_agent_store`, the store of torchrun's
    agents is there instead, and says where process 0 listens. `seat` is the device of this
    process.
    """

    env: LauncherEnv
    address: str
    port: int
    interface: str = ""
    has_agent_store: bool = False
    seat: DeviceSeat = DeviceSeat()
    notify: Notify = no_notice

    def find(self, waiting: Waiting) -> FoundLeader:
        """Return when all processes have registered and can work together."""
        requested = requested_network(self.interface, os.environ)
        connect = self._host if self.env.rank == 0 else self._connect
        network, store = connect(requested, waiting)
        calls = PrefixStore("roll call", store)
        verdict = RollCall(calls, self.env, network, waiting, self.seat, self.notify).run()
        code = verdict.exit_code
        if verdict.trouble and self.env.local_rank:  # one message per machine is enough
            raise PeerFailedError(verdict.trouble, exit_code=code)
        if verdict.trouble:
            raise RunError(verdict.trouble, where=str(network), fix=verdict.fix, exit_code=code)
        return FoundLeader(PrefixStore("group", store), network, verdict.warnings)

    def _host(self, requested: Network | None, waiting: Waiting) -> tuple[Network, Store]:
        agents = self._agent_store(waiting)
        if self.env.on_one_machine:
            number = os.getpid() if agents else self.port
            listening, path = listen_private(_name(number))
            leader = LeaderAddress(LOOPBACK_NETWORK.address, number)
        else:
            listening, path = self._listen(requested, agents, waiting), ""
            leader = LeaderAddress(*listening.getsockname()[:2])
        store = host_store(listening, path, self.notify)
        if agents:
            agents.publish_leader(leader)
        return requested or network_of(leader.address), store

    def _listen(
        self, requested: Network | None, agents: TorchrunStore | None, waiting: Waiting
    ) -> socket.socket:
        port = 0 if agents else self.port
        known = [address for address in resolve(self.address) if not is_loopback(address)]
        if requested and (agents or not known):
            return listen(requested.address, port)
        if agents and not known:
            return listen(self._address_towards_worker(agents, waiting), port)
        return listen_as(self.address, port, waiting)

    def _address_towards_worker(self, agents: TorchrunStore, waiting: Waiting) -> str:
        while not (address := source_address(agents.worker_address())):
            waiting.describe(
                f"process 0 on {socket.gethostname()} waits for a process of another machine",
                "check that training was started on the others, and what it reports there",
            )
            waiting.pause(LEADER_POLL_SECONDS)
        return address

    def _connect(self, requested: Network | None, waiting: Waiting) -> tuple[Network, Store]:
        agents = self._agent_store(waiting)
        if agents and self.env.local_rank == 0:
            agents.publish_worker()
        while True:
            leader = agents.leader() if agents else LeaderAddress(self.address, self.port)
            found = (
                self._look_for(leader)
                if leader
                else PortCheck(trouble="it has not published its address yet")
            )
            if leader and found.address:
                store = try_store(_endpoint(found.address, leader.port), waiting)
                if store is not None:
                    return requested or network_of(found.source), store
            else:
                self._describe(leader, found, waiting)
            waiting.pause(LEADER_POLL_SECONDS)

    def _agent_store(self, waiting: Waiting) -> TorchrunStore | None:
        if not self.has_agent_store:
            return None
        return TorchrunStore(self.address, self.port, self.env.rank, waiting)

    def _look_for(self, leader: LeaderAddress) -> PortCheck:
        if self.env.on_one_machine:
            path = private_path(_name(leader.port))
            if is_served(path):
                return PortCheck(path, LOOPBACK_NETWORK.address)
            return PortCheck(
                trouble=f"nothing listens at {path} yet",
                fix="check that process 0 was started and still runs",
            )
        # On the machine of process 0 its name may mean loopback, where it does not listen.
        ambiguous = all(is_loopback(address) for address in resolve(leader.address))
        return check_port(leader.address, leader.port, own_addresses() if ambiguous else ())

    def _describe(
        self, leader: LeaderAddress | None, found: PortCheck, waiting: Waiting
    ) -> None:
        here = f"process {self.env.rank} on {socket.gethostname()}"
        where = f" at {leader.address} port {leader.port}" if leader else ""
        waiting.describe(f"{here} waits for process 0{where}: {found.trouble}", found.fix)


def _name(number: int) -> str:
    """Return the name of process 0's Unix socket, if all processes are on one machine."""
    return f"store-{number}"


def _endpoint(address: str, port: int) -> Endpoint:
    return address if address.startswith("/") else (address, port)
