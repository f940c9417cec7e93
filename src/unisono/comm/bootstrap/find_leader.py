"""The store of torchrun's agents, used as a board on which process 0 says where it listens.

That store outlives the workers, and what a dead one wrote in it misleads its successors:
with gloo, 1 of 7 restarts came up. So nothing but an invitation stands on it, process 0
renews it at every start, and one that leads nowhere is read again.

How the processes of a run find the store of process 0, whoever started them.
"""

import os
import socket
from dataclasses import dataclass

import msgspec
from torch.distributed.distributed_c10d import PrefixStore, Store

from unisono.comm.bootstrap.launcher_env import LauncherEnv
from unisono.comm.bootstrap.network import (
    LOOPBACK,
    Network,
    PortCheck,
    asked_network,
    check_port,
    is_loopback,
    network_of,
    own_addresses,
    resolve,
)
from unisono.comm.bootstrap.roll_call import RollCall
from unisono.comm.bootstrap.store import host_store, listen, open_door, read, visit_store
from unisono.comm.waiting import Waiting
from unisono.errors import PeerFailedError, RunError
from unisono.source_address import source_address

TRY_EVERY_SECONDS = 0.1
CONNECT_SECONDS = 10.0


class Invitation(msgspec.Struct, frozen=True):
    """Where process 0 listens."""

    address: str
    port: int


class TorchrunStore:
    """The board at an address, found as soon as it answers."""

    def __init__(self, address: str, port: int, rank: int, waiting: Waiting) -> None:
        while not (found := check_port(address, port)).address:
            waiting.describe(
                f"process {rank} waits for torchrun's store at {address}: {found.trouble}",
                "check that the torchrun of the first machine still runs, and that nothing "
                "keeps this machine from that port",
            )
            waiting.pause(TRY_EVERY_SECONDS)
        store = visit_store(found.address, port, CONNECT_SECONDS)
        self._store: Store = PrefixStore("unisono", store)
        self._rank, self.source = rank, found.source

    def invite(self, invitation: Invitation) -> None:
        """Tell the others where process 0 listens."""
        self._store.set("invitation", msgspec.json.encode(invitation).decode())

    def invitation(self) -> Invitation | None:
        """Return where process 0 listens, if it has said so; it may be an old one."""
        text = read(self._store, "invitation")
        return msgspec.json.decode(text, type=Invitation) if text else None

    def introduce(self) -> None:
        """Tell process 0 where this process comes from."""
        self._store.set("guest", self.source)

    def guest(self) -> str:
        """Return the address from which a process of another machine came, or ""."""
        return (read(self._store, "guest") or b"").decode()


@dataclass(frozen=True)
class FoundLeader:
    """What came of a meeting: a store for this start alone, and the network to use."""

    store: Store
    network: Network
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeaderSearch:
    """The meeting of a run, as one of its processes sees it.

    `address` and `port` are where process 0 listens; or, if it is `shared`, where the agents
    of torchrun have a store already.
    """

    place: LauncherEnv
    address: str
    port: int
    interface: str = ""
    shared: bool = False

    def attend(self, waiting: Waiting) -> FoundLeader:
        """Return when all processes are here and fit to work together."""
        asked = asked_network(self.interface, os.environ)
        attend = self._host if self.place.rank == 0 else self._visit
        network, store = attend(asked, waiting)
        seats = PrefixStore("meeting", store)
        verdict = RollCall(seats, self.place, network, waiting).hold()
        if verdict.trouble and self.place.local_rank:
            raise PeerFailedError(verdict.trouble)  # told once on every machine
        if verdict.trouble:
            raise RunError(verdict.trouble, where=str(network), fix=verdict.fix)
        return FoundLeader(PrefixStore("group", store), network, verdict.warnings)

    def _host(self, asked: Network | None, waiting: Waiting) -> tuple[Network, Store]:
        board = self._board(waiting)
        listening = self._open_door(asked, board, waiting)
        address, port = listening.getsockname()[:2]
        store = host_store(listening)
        if board:
            board.invite(Invitation(address, port))
        return asked or network_of(address), store

    def _open_door(
        self, asked: Network | None, board: TorchrunStore | None, waiting: Waiting
    ) -> socket.socket:
        port = 0 if board else self.port
        if self.place.on_one_machine:
            return listen(LOOPBACK.address, port)
        known = [address for address in resolve(self.address) if not is_loopback(address)]
        if asked and (board or not known):
            return listen(asked.address, port)
        if board and not known:
            return listen(self._towards_guest(board, waiting), port)
        return open_door(self.address, port, waiting)

    def _towards_guest(self, board: TorchrunStore, waiting: Waiting) -> str:
        while not (address := source_address(board.guest())):
            waiting.describe(
                f"process 0 on {socket.gethostname()} waits for a process of another machine",
                "check that training was started on the others, and what it says there",
            )
            waiting.pause(TRY_EVERY_SECONDS)
        return address

    def _visit(self, asked: Network | None, waiting: Waiting) -> tuple[Network, Store]:
        board = self._board(waiting)
        if board and self.place.local_rank == 0:
            board.introduce()
        while True:
            goal = board.invitation() if board else Invitation(self.address, self.port)
            found = self._look_for(goal) if goal else PortCheck(trouble="it has not said where")
            store = _connect(found, goal.port, waiting) if goal and found.address else None
            if store is not None:
                return asked or network_of(found.source), store
            if not found.address:
                self._describe(goal, found, waiting)
            waiting.pause(TRY_EVERY_SECONDS)

    def _board(self, waiting: Waiting) -> TorchrunStore | None:
        if not self.shared:
            return None
        return TorchrunStore(self.address, self.port, self.place.rank, waiting)

    def _look_for(self, goal: Invitation) -> PortCheck:
        if self.place.on_one_machine:
            return check_port(LOOPBACK.address, goal.port)
        # On the machine of process 0 its name may mean loopback, where it does not listen.
        ambiguous = all(is_loopback(address) for address in resolve(goal.address))
        return check_port(goal.address, goal.port, own_addresses() if ambiguous else ())

    def _describe(self, goal: Invitation | None, found: PortCheck, waiting: Waiting) -> None:
        here = f"process {self.place.rank} on {socket.gethostname()}"
        where = f" at {goal.address} port {goal.port}" if goal else ""
        waiting.describe(f"{here} waits for process 0{where}: {found.trouble}", found.fix)


def _connect(found: PortCheck, port: int, waiting: Waiting) -> Store | None:
    try:
        return visit_store(found.address, port, min(CONNECT_SECONDS, waiting.seconds_left))
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        waiting.describe(
            f"{found.address} port {port} answers, but not as the store of a run: {reason}",
            "something else may use the port: set MASTER_PORT to another one everywhere",
        )
        return None
