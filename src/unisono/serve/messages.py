"""What the server and its workers send each other: MessagePack, each message after its length.

Sockets between a parent and its child carry them; nobody else can write there.
"""

import socket
from typing import TypeVar

import msgspec

LENGTH_BYTES = 4
LONGEST_MESSAGE = 2**28

M = TypeVar("M")


class SentenceBatch(msgspec.Struct, frozen=True, array_like=True):
    """Sentences for the model with this number, and how many translations of each to return."""

    model: int
    best: int
    sentences: list[str]


class RankedText(msgspec.Struct, frozen=True, array_like=True):
    """A translation of a sentence and how sure the model is of it, from 0 to 1."""

    text: str
    confidence: float


class WorkerReply(msgspec.Struct, frozen=True, array_like=True):
    """The translations of each sentence, best first; or what went wrong.

    The first reply of a worker has no translations: it says that the worker is ready.
    """

    translations: list[list[RankedText]] = []
    error: str = ""
    where: str = ""
    fix: str = ""
    exit_code: int = 0


def encoded(message: msgspec.Struct) -> bytes:
    """Return `message` as it is sent."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def receive(connection: socket.socket, kind: type[M]) -> M | None:
    """Return the next message, or None if the other side has closed the connection."""
    head = _exactly(connection, LENGTH_BYTES)
    body = _exactly(connection, int.from_bytes(head, "big")) if head else b""
    return msgspec.msgpack.decode(body, type=kind) if body else None


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(min(count, 2**20))
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
