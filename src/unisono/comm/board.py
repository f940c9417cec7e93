"""The store of torchrun's agents, used as a board on which process 0 says where it listens.

That store outlives the workers, and what a dead one wrote in it misleads its successors:
with gloo, 1 of 7 restarts came up. So nothing but an invitation stands on it, process 0
renews it at every start, and one that leads nowhere is read again.
"""

import msgspec
from torch.distributed.distributed_c10d import PrefixStore, Store

from unisono.comm.knock import knock
from unisono.comm.store import read, visit_store
from unisono.comm.waiting import Waiting

TRY_EVERY_SECONDS = 0.1
CONNECT_SECONDS = 10.0


class Invitation(msgspec.Struct, frozen=True):
    """Where process 0 listens."""

    address: str
    port: int


class Board:
    """The board at an address, found as soon as it answers."""

    def __init__(self, address: str, port: int, rank: int, waiting: Waiting) -> None:
        while not (found := knock(address, port)).address:
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
