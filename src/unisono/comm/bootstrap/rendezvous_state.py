"""The state that torchrun's agents share while their machines come together, as checked JSON.

Torch's own holder of that state unpickles whatever the store contains, which runs code. This
one writes and reads JSON of a fixed shape, through a store that only those reach who know the
secret of the run.
"""

import time
from datetime import datetime

import msgspec
from torch.distributed.distributed_c10d import Store
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousParameters,
    RendezvousStateError,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    _BackendRendezvousStateHolder,
    _NodeDesc,
    _RendezvousState,
    create_handler,
)

BACKEND = "unisono"
MOST_BYTES = 1 << 20

Node = tuple[str, int, int]


class StateRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the agents agree on: the round, its members, who waits, and signs of life."""

    round: int
    complete: bool
    closed: bool
    deadline: datetime | None
    participants: tuple[tuple[Node, int], ...]
    wait_list: tuple[Node, ...]
    redundancy_list: tuple[Node, ...]
    last_heartbeats: tuple[tuple[Node, datetime], ...]


def encode_state(state: _RendezvousState) -> bytes:
    """Return a state as JSON."""
    record = StateRecord(
        state.round,
        state.complete,
        state.closed,
        state.deadline,
        tuple((_node(node), rank) for node, rank in state.participants.items()),
        tuple(map(_node, state.wait_list)),
        tuple(map(_node, state.redundancy_list)),
        tuple((_node(node), seen) for node, seen in state.last_heartbeats.items()),
    )
    return msgspec.json.encode(record)


def decode_state(data: bytes) -> _RendezvousState:
    """Return the state in `data`; anything but a whole record is an error."""
    try:
        if len(data) > MOST_BYTES:
            raise RendezvousStateError(f"the state of the rendezvous has {len(data)} bytes")
        record = msgspec.json.decode(data, type=StateRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RendezvousStateError(
            f"the state of the rendezvous is damaged: {error}"
        ) from error
    state = _RendezvousState()
    state.round, state.complete, state.closed = record.round, record.complete, record.closed
    state.deadline = record.deadline
    state.participants = {_NodeDesc(*node): rank for node, rank in record.participants}
    state.wait_list = {_NodeDesc(*node) for node in record.wait_list}
    state.redundancy_list = {_NodeDesc(*node) for node in record.redundancy_list}
    state.last_heartbeats = {_NodeDesc(*node): seen for node, seen in record.last_heartbeats}
    return state


class JsonStateHolder(_BackendRendezvousStateHolder):
    """Torch's holder of the shared state, but nothing it reads is unpickled."""

    def sync(self) -> bool | None:
        """Write the state if it has changed here, else read it; return whether we wrote."""
        written: bool | None = None
        found: tuple[bytes, object] | None
        if self._dirty:
            answer = self._backend.set_state(encode_state(self._state), self._token)
            written, found = (answer[2], answer[:2]) if answer else (False, None)
        elif time.monotonic() - self._last_sync_time < self._cache_duration:
            return None
        else:
            found = self._backend.get_state()
        self._state, self._token = _RendezvousState(), None
        if found is not None:
            self._state, self._token = decode_state(found[0]), found[1]
        self._dirty, self._last_sync_time = False, time.monotonic()
        self._sanitize()
        return written


def use_store(store: Store) -> None:
    """Let torchrun's agent in this process meet the others in `store`, as backend BACKEND."""

    def create(parameters: RendezvousParameters) -> RendezvousHandler:
        backend = C10dRendezvousBackend(store, parameters.run_id)
        handler: DynamicRendezvousHandler = create_handler(store, backend, parameters)
        holder = JsonStateHolder(backend, handler.settings)
        return DynamicRendezvousHandler(
            handler._this_node, handler.settings, BACKEND, store, holder
        )

    rendezvous_handler_registry._registry.pop(BACKEND, None)
    rendezvous_handler_registry.register(BACKEND, create)


def _node(node: _NodeDesc) -> Node:
    return (node.addr, node.pid, node.local_id)
