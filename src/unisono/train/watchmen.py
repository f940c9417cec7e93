"""How the watchmen of a run come to know each other, through the processes they watch."""

import os
import secrets

import msgspec

from unisono.comm.bootstrap.network import LOOPBACK
from unisono.comm.bootstrap.store import listen
from unisono.comm.protocol import Comm
from unisono.config.settings import Settings
from unisono.lookout.messages import Member, Orders
from unisono.lookout.settings import SUPERVISED
from unisono.units import seconds_of


class _Call(msgspec.Struct, frozen=True):
    """Where rank 0's watchman is to be called, and with which word."""

    address: str
    port: int
    token: str


def agree_on_orders(comm: Comm, settings: Settings) -> Orders:
    """Return what this process's watchman has to know. All processes call this together."""
    world = comm.world
    me = Member(world.rank, os.uname().nodename, os.getpid(), world.local_rank)
    rows = comm.gather_bytes(msgspec.json.encode(me))
    door, call = -1, b""
    if world.leads:
        on_one_machine = world.local_size == world.size
        listening = listen(LOOPBACK.address if on_one_machine else world.address, 0)
        address, port = listening.getsockname()[:2]
        call = msgspec.json.encode(_Call(address, port, secrets.token_hex(16)))
        door = listening.detach()
    told = msgspec.json.decode(comm.gather_bytes(call)[0], type=_Call)
    return Orders(
        rank=world.rank,
        members=tuple(msgspec.json.decode(row, type=Member) for row in rows),
        address=told.address,
        port=told.port,
        token=told.token,
        limit=seconds_of(settings.sync.lost_after),
        agent=os.getppid(),
        listen=door,
        run=settings.run,
        then=_what_then(),
    )


def _what_then() -> str:
    """Return what becomes of the run after a loss, as far as this process can know."""
    most = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    done = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    restarts_left = most.isdecimal() and done.isdecimal() and int(done) < int(most)
    if restarts_left or os.environ.get(SUPERVISED):
        return "the processes are started again and go on from the last checkpoint"
    again = "the same command continues from the last checkpoint, if there is one yet"
    return f"the run ends here; {again}"
