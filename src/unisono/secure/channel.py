"""Connections between the processes of a run, authenticated by the secret of that run.

Both ends prove that they know the secret without sending it: each answers the other's nonce
with a keyed hash (HMAC-SHA256). Every frame after that carries a hash over its direction, its
number and its content, so that nothing can be forged, replayed, dropped or reordered unseen.
Nothing is encrypted: whoever can read the network traffic can read the frames.
"""

import hmac
import os
import secrets
import socket
import struct
import time

NONCE_BYTES = TAG_BYTES = 32
FRAME_BYTES = 1 << 20
HELLO = b"unisono1"
HANDSHAKE_SECONDS = REST_SECONDS = 5.0

Endpoint = tuple[str, int] | str  # an address and a port, or the path of a Unix socket

_PEER = struct.Struct("3i")  # of a Unix socket: process, user, group
_LENGTH = struct.Struct("!I")
_NUMBER = struct.Struct("!Q")


class StrangerError(Exception):
    """The other end does not know the secret of the run, or does not speak its protocol."""


class ChannelClosedError(StrangerError):
    """The other end closed the connection in the middle of a frame."""


class PortCheckedError(Exception):
    """The other end sent nothing and closed the connection, as port checks do."""


class Channel:
    """An authenticated connection. Each call has one deadline, however slowly bytes arrive."""

    def __init__(self, connection: socket.socket, key: bytes, *, serves: bool) -> None:
        self._connection, self._key = connection, key
        self._sends, self._receives = (b"s", b"c") if serves else (b"c", b"s")
        self._sent = self._received = 0

    def send(self, content: bytes, seconds: float) -> None:
        """Send one frame."""
        if len(content) > FRAME_BYTES:
            raise ValueError(f"a frame of {len(content)} bytes is too long")
        tag = self._tag(self._sends, self._sent, content)
        self._sent += 1
        self._connection.settimeout(max(0.001, seconds))
        self._connection.sendall(_LENGTH.pack(len(content)) + content + tag)

    def receive(self, seconds: float | None) -> bytes:
        """Return the next frame; raise StrangerError if it was not sent by the other end.

        Without a time limit (None) it may begin at any time, but must be complete soon after.
        """
        if seconds is None:
            self._connection.settimeout(None)
            self._connection.recv(1, socket.MSG_PEEK)
        deadline = time.monotonic() + (REST_SECONDS if seconds is None else seconds)
        (length,) = _LENGTH.unpack(read_exactly(self._connection, _LENGTH.size, deadline))
        if length > FRAME_BYTES:
            raise StrangerError(f"a frame of {length} bytes")
        content = read_exactly(self._connection, length, deadline)
        tag = read_exactly(self._connection, TAG_BYTES, deadline)
        if not hmac.compare_digest(tag, self._tag(self._receives, self._received, content)):
            raise StrangerError("a frame whose hash is wrong")
        self._received += 1
        return content

    @property
    def source(self) -> str:
        """Return the address of this end of the connection."""
        return str(self._connection.getsockname()[0])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _tag(self, direction: bytes, number: int, content: bytes) -> bytes:
        return _hash(self._key, direction, _NUMBER.pack(number), content)


def dial(endpoint: Endpoint, secret: bytes, seconds: float) -> Channel:
    """Connect to a server of this run; return an authenticated channel to it."""
    deadline = time.monotonic() + seconds
    connection = socket.socket(_family_of(endpoint), socket.SOCK_STREAM)
    try:
        connection.settimeout(max(0.001, seconds))
        connection.connect(endpoint)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connect(connection, secret, deadline - time.monotonic())
    except BaseException:
        connection.close()
        raise


def connect(connection: socket.socket, secret: bytes, seconds: float) -> Channel:
    """Return the client's end of an authenticated channel over `connection`."""
    deadline, nonce = time.monotonic() + seconds, secrets.token_bytes(NONCE_BYTES)
    _check_user(connection)
    connection.settimeout(max(0.001, seconds))
    connection.sendall(HELLO + nonce)
    answer = read_exactly(connection, NONCE_BYTES + TAG_BYTES, deadline)
    theirs, proof = answer[:NONCE_BYTES], answer[NONCE_BYTES:]
    if not hmac.compare_digest(proof, _hash(secret, b"server", nonce, theirs)):
        raise StrangerError("a server that does not know the run's secret")
    connection.settimeout(max(0.001, deadline - time.monotonic()))
    connection.sendall(_hash(secret, b"client", nonce, theirs))
    return Channel(connection, _hash(secret, b"session", nonce, theirs), serves=False)


def accept(connection: socket.socket, secret: bytes, seconds: float) -> Channel:
    """Return the server's end of an authenticated channel over `connection`."""
    deadline, nonce = time.monotonic() + seconds, secrets.token_bytes(NONCE_BYTES)
    _check_user(connection)
    connection.settimeout(max(0.001, seconds))
    if not connection.recv(1, socket.MSG_PEEK):
        raise PortCheckedError
    hello = read_exactly(connection, len(HELLO) + NONCE_BYTES, deadline)
    theirs = hello[len(HELLO) :]
    if hello[: len(HELLO)] != HELLO:
        raise StrangerError("another protocol")
    connection.settimeout(max(0.001, deadline - time.monotonic()))
    connection.sendall(nonce + _hash(secret, b"server", theirs, nonce))
    proof = read_exactly(connection, TAG_BYTES, deadline)
    if not hmac.compare_digest(proof, _hash(secret, b"client", theirs, nonce)):
        raise StrangerError("a client that does not know the run's secret")
    return Channel(connection, _hash(secret, b"session", theirs, nonce), serves=True)


def read_exactly(connection: socket.socket, count: int, deadline: float) -> bytes:
    """Return `count` bytes; raise TimeoutError at `deadline`, an error if they end."""
    parts, missing = [], count
    while missing:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the other end is too slow")
        connection.settimeout(left)
        part = connection.recv(min(missing, 1 << 16))
        if not part:
            raise ChannelClosedError("a connection that ended in the middle")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _family_of(endpoint: Endpoint) -> socket.AddressFamily:
    if isinstance(endpoint, str):
        return socket.AF_UNIX
    return socket.AF_INET6 if ":" in endpoint[0] else socket.AF_INET


def _check_user(connection: socket.socket) -> None:
    """Refuse the process of another user at the other end of a Unix socket."""
    if connection.family != socket.AF_UNIX:
        return
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    if _PEER.unpack(found)[1] not in (os.geteuid(), 0):
        raise StrangerError("a process of another user")


def _hash(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(parts), "sha256")
