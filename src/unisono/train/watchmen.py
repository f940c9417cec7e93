"""How the watchmen of a run come to know each other, through the processes they watch."""

import os
import secrets

import msgspec

from unisono.comm.protocol import Comm
from unisono.config.settings import Settings
from unisono.lookout.address import is_loopback, listen_on, own_address_towards
from unisono.lookout.messages import Member, Orders
from unisono.units import seconds_of

LOOPBACK = "127.0.0.1"
SUPERVISED = "UNISONO_SUPERVISED"


class _Arrival(msgspec.Struct, frozen=True):
    """A process, and its machine's address on the way to where all have met."""

    member: Member
    address: str


class _Call(msgspec.Struct, frozen=True):
    """Where rank 0's watchman is to be called, and with which word."""

    address: str
    port: int
    token: str


def agree_on_orders(comm: Comm, settings: Settings) -> Orders:
    """Return what this process's watchman has to know. All processes call this together."""
    world = comm.world
    me = Member(world.rank, os.uname().nodename, os.getpid(), world.local_rank)
    meeting = os.environ.get("MASTER_ADDR", "")
    arrival = _Arrival(me, world.address or own_address_towards(meeting))
    arrivals = [
        msgspec.json.decode(row, type=_Arrival)
        for row in comm.gather_bytes(msgspec.json.encode(arrival))
    ]
    here = LOOPBACK if world.local_size == world.size else _address_of_leader(arrivals)
    listen, call = -1, b""
    if world.leads:
        listening = listen_on(here)
        port = listening.getsockname()[1]
        call = msgspec.json.encode(_Call(here, port, secrets.token_hex(16)))
        listen = listening.detach()
    told = msgspec.json.decode(comm.gather_bytes(call)[0], type=_Call)
    return Orders(
        rank=world.rank,
        members=tuple(arrival.member for arrival in arrivals),
        address=told.address,
        port=told.port,
        token=told.token,
        limit=seconds_of(settings.sync.lost_after),
        agent=os.getppid(),
        listen=listen,
        run=settings.run,
        then=_what_then(),
    )


def _address_of_leader(arrivals: list[_Arrival]) -> str:
    """Return the address at which the others reach rank 0's machine. Only it needs it."""
    if not is_loopback(arrivals[0].address):
        return arrivals[0].address
    for arrival in arrivals:
        if not is_loopback(arrival.address) and arrival.member.host != arrivals[0].member.host:
            mine = own_address_towards(arrival.address)
            if mine:
                return mine
    return LOOPBACK


def _what_then() -> str:
    """Return what becomes of the run after a loss, as far as this process can know."""
    most = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    done = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    restarts_left = most.isdecimal() and done.isdecimal() and int(done) < int(most)
    if restarts_left or os.environ.get(SUPERVISED):
        return "the processes are started again and go on from the last checkpoint"
    return "the run ends here; the same command continues from the last checkpoint"
