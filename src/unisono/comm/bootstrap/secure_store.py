"""The key-value store of a run, open to those who know its secret and to nobody else.

It takes the place of torch's TCPStore, which answers everybody: a stranger could read where
processes listen, and plant values for them. Here every connection is authenticated, every
message is bounded in size and time, and what arrives is data of a fixed shape.
"""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Literal

import msgspec
from torch.distributed import DistNetworkError, DistStoreError
from torch.distributed.distributed_c10d import Store

from unisono.secure.channel import HANDSHAKE_SECONDS, Channel, Endpoint, StrangerError, dial
from unisono.secure.server import SecureServer

CALL_SECONDS = 60.0
# A call waits this long for a key, then others of the same process may use the connection.
KEY_WAIT_SECONDS, BETWEEN_WAITS_SECONDS = 0.05, 0.001
TABLE_BYTES = 256 << 20


class StoreRequest(msgspec.Struct, frozen=True, array_like=True):
    """What a client asks of the store."""

    operation: Literal["set", "get", "add", "check", "compare_set", "delete", "count", "append"]
    keys: tuple[str, ...] = ()
    values: tuple[bytes, ...] = ()
    amount: int = 0
    seconds: float = 0.0  # how long to wait for a missing key


class StoreReply(msgspec.Struct, frozen=True, array_like=True):
    """What the store says: values, a number, and whether all keys were there."""

    values: tuple[bytes, ...] = ()
    number: int = 0
    found: bool = True
    error: str = ""


class StoreServer:
    """Holds the table, and answers the clients that know the secret."""

    def __init__(
        self, listening: socket.socket, secret: bytes, tell: Callable[[str], None]
    ) -> None:
        self._table: dict[str, bytes] = {}
        self._size, self._changed = 0, threading.Condition()
        self._server = SecureServer(listening, secret, self._serve, tell)

    def close(self) -> None:
        """Stop listening. Clients that are connected keep their connections."""
        self._server.close()

    def _serve(self, channel: Channel) -> None:
        try:
            while True:
                content = channel.receive(None)  # an authenticated client may be silent
                reply = self._answer(msgspec.msgpack.decode(content, type=StoreRequest))
                channel.send(msgspec.msgpack.encode(reply), CALL_SECONDS)
        except msgspec.MsgspecError:
            return  # not a client of this run

    def _answer(self, request: StoreRequest) -> StoreReply:
        with self._changed:
            if request.operation == "count":
                return StoreReply(number=len(self._table))
            if request.operation in ("check", "get"):
                return self._look_up(request)
            try:
                reply = self._change(request)
            except (ValueError, IndexError) as error:
                return StoreReply(error=str(error))
            self._changed.notify_all()
            return reply

    def _look_up(self, request: StoreRequest) -> StoreReply:
        def has_all() -> bool:
            return all(key in self._table for key in request.keys)

        found = has_all()
        if not found and request.seconds > 0:
            found = self._changed.wait_for(has_all, min(request.seconds, KEY_WAIT_SECONDS))
        wanted = request.keys if found and request.operation == "get" else ()
        return StoreReply(tuple(self._table[key] for key in wanted), found=found)

    def _change(self, request: StoreRequest) -> StoreReply:
        if request.operation == "delete":
            value = self._table.pop(request.keys[0], None)
            self._size -= len(value or b"")
            return StoreReply(found=value is not None)
        if request.operation == "set":
            for key, value in zip(request.keys, request.values, strict=True):
                self._put(key, value)
            return StoreReply()
        key = request.keys[0]
        before = self._table.get(key)
        if request.operation == "add":
            number = int(before or b"0") + request.amount
            self._put(key, str(number).encode())
            return StoreReply(number=number)
        if request.operation == "append":
            self._put(key, (before or b"") + request.values[0])
            return StoreReply()
        expected, desired = request.values
        if before == expected or (before is None and not expected):
            self._put(key, desired)
            return StoreReply((desired,))
        return StoreReply((expected if before is None else before,))

    def _put(self, key: str, value: bytes) -> None:
        size = self._size + len(value) - len(self._table.get(key, b""))
        if size > TABLE_BYTES:
            raise ValueError("the store is full")
        self._table[key], self._size = value, size


# Torch's C++ keeps its half of a store alive, but not the half in Python that does the work.
_KEPT: list[Store] = []


class SecureStore(Store):
    """A client of the store. Torch takes it for a store of its own."""

    timeout: timedelta  # torch keeps it

    def __init__(
        self,
        channel: Channel,
        seconds: float = 300.0,
        server: StoreServer | None = None,
        *,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        """Wait `seconds` for a key, and `call_seconds` for an answer of the server."""
        super().__init__()
        self._call_seconds = call_seconds
        self._channel, self._lock, self._server = channel, threading.Lock(), server
        self._gone = ""  # why, for all later calls
        self.set_timeout(timedelta(seconds=seconds))
        _KEPT.append(self)

    def set(self, key: str, value: str | bytes) -> None:
        self._call(StoreRequest("set", (key,), (_bytes(value),)))

    def get(self, key: str) -> bytes:
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        request = StoreRequest("get", tuple(keys))
        return list(self._until_found(request, self.timeout.total_seconds()).values)

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        self._call(StoreRequest("set", tuple(keys), tuple(map(_bytes, values))))

    def add(self, key: str, amount: int) -> int:
        return self._call(StoreRequest("add", (key,), amount=amount)).number

    def append(self, key: str, value: str | bytes) -> None:
        self._call(StoreRequest("append", (key,), (_bytes(value),)))

    def check(self, keys: Sequence[str]) -> bool:
        return self._call(StoreRequest("check", tuple(keys))).found

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        seconds = (timeout or self.timeout).total_seconds()
        self._until_found(StoreRequest("check", tuple(keys)), seconds)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        pair = (_bytes(expected), _bytes(desired))
        return self._call(StoreRequest("compare_set", (key,), pair)).values[0]

    def delete_key(self, key: str) -> bool:
        return self._call(StoreRequest("delete", (key,))).found

    def num_keys(self) -> int:
        return self._call(StoreRequest("count")).number

    def has_extended_api(self) -> bool:
        return True  # append, multi_get and multi_set

    def clone(self) -> Store:
        return self  # threads may share it

    def _until_found(self, request: StoreRequest, seconds: float) -> StoreReply:
        deadline = time.monotonic() + seconds
        patient = msgspec.structs.replace(request, seconds=KEY_WAIT_SECONDS)
        while not (reply := self._call(patient)).found:
            if time.monotonic() > deadline:
                raise DistStoreError(
                    f"timed out after {seconds:g} s waiting for {', '.join(request.keys)}"
                )
            time.sleep(BETWEEN_WAITS_SECONDS)
        return reply

    def _call(self, request: StoreRequest) -> StoreReply:
        with self._lock:
            if self._gone:
                raise DistNetworkError(self._gone)
            try:
                self._channel.send(msgspec.msgpack.encode(request), self._call_seconds)
                content = self._channel.receive(self._call_seconds)
            except (OSError, StrangerError) as error:
                self._channel.close()
                self._gone = f"the store of the run is gone: {error}"
                raise DistNetworkError(self._gone) from error
        reply = msgspec.msgpack.decode(content, type=StoreReply)
        if reply.error:
            raise DistStoreError(f"the store refuses to {request.operation}: {reply.error}")
        return reply


def serve_store(
    listening: socket.socket, endpoint: Endpoint, secret: bytes, tell: Callable[[str], None]
) -> SecureStore:
    """Serve a store on a socket; return this process's own client, which calls `endpoint`."""
    server = StoreServer(listening, secret, tell)
    return SecureStore(dial(endpoint, secret, HANDSHAKE_SECONDS), server=server)


def join_store(
    endpoint: Endpoint, secret: bytes, seconds: float, call_seconds: float = CALL_SECONDS
) -> SecureStore:
    """Return a client of the store that another process serves at `endpoint`."""
    try:
        channel = dial(endpoint, secret, seconds)
    except (OSError, StrangerError) as error:
        raise DistNetworkError(f"no store of this run: {error}") from error
    return SecureStore(channel, call_seconds=call_seconds)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
