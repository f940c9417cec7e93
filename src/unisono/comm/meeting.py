"""How the processes of a run find the store of process 0, whoever started them."""

import os
import socket
from dataclasses import dataclass

from torch.distributed.distributed_c10d import PrefixStore, Store

from unisono.comm.board import Board, Invitation
from unisono.comm.door import open_door
from unisono.comm.knock import Knock, knock
from unisono.comm.network import (
    LOOPBACK,
    Network,
    asked_network,
    is_loopback,
    network_of,
    own_addresses,
    resolve,
)
from unisono.comm.place import Place
from unisono.comm.roll_call import RollCall
from unisono.comm.store import host_store, listen, visit_store
from unisono.comm.waiting import Waiting
from unisono.errors import DismissedError, RunError
from unisono.source_address import source_address

TRY_EVERY_SECONDS = 0.1
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Met:
    """What came of a meeting: a store for this start alone, and the network to use."""

    store: Store
    network: Network
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Meeting:
    """The meeting of a run, as one of its processes sees it.

    `address` and `port` are where process 0 listens; or, if it is `shared`, where the agents
    of torchrun have a store already.
    """

    place: Place
    address: str
    port: int
    interface: str = ""
    shared: bool = False

    def attend(self, waiting: Waiting) -> Met:
        """Return when all processes are here and fit to work together."""
        asked = asked_network(self.interface, os.environ)
        attend = self._host if self.place.rank == 0 else self._visit
        network, store = attend(asked, waiting)
        seats = PrefixStore("meeting", store)
        verdict = RollCall(seats, self.place, network, waiting).hold()
        if verdict.trouble and self.place.local_rank:
            raise DismissedError(verdict.trouble)  # told once on every machine
        if verdict.trouble:
            raise RunError(verdict.trouble, where=str(network), fix=verdict.fix)
        return Met(PrefixStore("group", store), network, verdict.warnings)

    def _host(self, asked: Network | None, waiting: Waiting) -> tuple[Network, Store]:
        board = self._board(waiting)
        listening = self._open_door(asked, board, waiting)
        address, port = listening.getsockname()[:2]
        store = host_store(listening)
        if board:
            board.invite(Invitation(address, port))
        return asked or network_of(address), store

    def _open_door(
        self, asked: Network | None, board: Board | None, waiting: Waiting
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

    def _towards_guest(self, board: Board, waiting: Waiting) -> str:
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
            found = self._look_for(goal) if goal else Knock(trouble="it has not said where")
            store = _connect(found, goal.port, waiting) if goal and found.address else None
            if store is not None:
                return asked or network_of(found.source), store
            if not found.address:
                self._describe(goal, found, waiting)
            waiting.pause(TRY_EVERY_SECONDS)

    def _board(self, waiting: Waiting) -> Board | None:
        if not self.shared:
            return None
        return Board(self.address, self.port, self.place.rank, waiting)

    def _look_for(self, goal: Invitation) -> Knock:
        if self.place.on_one_machine:
            return knock(LOOPBACK.address, goal.port)
        # On the machine of process 0 its name may mean loopback, where it does not listen.
        ambiguous = all(is_loopback(address) for address in resolve(goal.address))
        return knock(goal.address, goal.port, own_addresses() if ambiguous else ())

    def _describe(self, goal: Invitation | None, found: Knock, waiting: Waiting) -> None:
        here = f"process {self.place.rank} on {socket.gethostname()}"
        where = f" at {goal.address} port {goal.port}" if goal else ""
        waiting.describe(f"{here} waits for process 0{where}: {found.trouble}", found.fix)


def _connect(found: Knock, port: int, waiting: Waiting) -> Store | None:
    try:
        return visit_store(found.address, port, min(CONNECT_SECONDS, waiting.seconds_left))
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        waiting.describe(
            f"{found.address} port {port} answers, but not as the store of a run: {reason}",
            "something else may use the port: set MASTER_PORT to another one everywhere",
        )
        return None
