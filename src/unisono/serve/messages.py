"""What the server and its workers send each other: MessagePack, each message after its length.

Sockets between a parent and its child carry them; nobody else can write there.
"""

import socket
from collections.abc import Iterator
from socket import MSG_DONTWAIT

import msgspec

LENGTH_BYTES = 4
LONGEST_MESSAGE = 2**28


class SentenceBatch(msgspec.Struct, frozen=True, array_like=True):
    """Sentences for the model with this number, and how many translations of each to return.

    Each sentence has a ticket, a number that its reply repeats.
    """

    model: int
    best: int
    tickets: list[int]
    sentences: list[str]


class RankedText(msgspec.Struct, frozen=True, array_like=True):
    """A translation of a sentence and how sure the model is of it, from 0 to 1."""

    text: str
    confidence: float


class WorkerReply(msgspec.Struct, frozen=True, array_like=True):
    """The translations of each sentence, best first; or what went wrong with them.

    Sentences may be replied in any order, together or not. The first reply of a worker has
    none: it says that the worker is ready.
    """

    tickets: list[int] = []
    translations: list[list[RankedText]] = []
    error: str = ""
    where: str = ""
    fix: str = ""
    exit_code: int = 0


def encoded(message: msgspec.Struct) -> bytes:
    """Return `message` as it is sent."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class BatchReader:
    """What a worker reads from its connection to the server."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._bytes = connection, bytearray()

    def read(self, *, wait: bool) -> list[SentenceBatch] | None:
        """Return the batches that have come, or None if the server has closed the connection.

        Wait for one if asked to.
        """
        batches: list[SentenceBatch] = []
        while True:
            try:
                part = self._connection.recv(2**20, 0 if wait and not batches else MSG_DONTWAIT)
            except BlockingIOError:
                return batches
            if not part:
                return None
            self._bytes += part
            batches += self._complete()

    def _complete(self) -> Iterator[SentenceBatch]:
        """Yield the batches whose bytes are all there."""
        while len(self._bytes) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._bytes[:LENGTH_BYTES], "big")
            if len(self._bytes) < end:
                return
            yield msgspec.msgpack.decode(self._bytes[LENGTH_BYTES:end], type=SentenceBatch)
            del self._bytes[:end]
