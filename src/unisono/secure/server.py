"""A server for those who know the secret of the run; others cannot block it."""

import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress

from unisono.secure.channel import (
    HANDSHAKE_SECONDS,
    Channel,
    PortCheckedError,
    StrangerError,
    accept,
)

# Most connections that have not proven the secret yet: from one address, and in all.
PLACES_PER_ADDRESS, PLACES_FOR_UNKNOWN = 32, 256
ACCEPT_AGAIN_SECONDS = 0.1
COUNT_SECONDS = 2.0
MOST_ADDRESSES = 20
FURTHER = "further addresses"


class Strangers:
    """Counts connections that did not know the secret, and reports each address once."""

    def __init__(self, tell: Callable[[str], None], seconds: float = COUNT_SECONDS) -> None:
        """Call `tell` for an address `seconds` after its first connection, with the count."""
        self._tell, self._seconds = tell, seconds
        self._counts, self._lock = Counter[str](), threading.Lock()

    def refused(self, address: str) -> None:
        """Count a connection from `address` that was refused."""
        with self._lock:
            if address not in self._counts and len(self._counts) >= MOST_ADDRESSES:
                address = FURTHER
            self._counts[address] += 1
            is_first = self._counts[address] == 1
        if is_first:
            timer = threading.Timer(self._seconds, self._tell_of, (address,))
            timer.daemon = True
            timer.start()

    def _tell_of(self, address: str) -> None:
        count = self._counts[address]
        connections = "1 connection" if count == 1 else f"{count:,} connections"
        self._tell(f"{connections} from {address} did not know the run's secret")


class SecureServer:
    """Hands every connection that proves the secret to `serve`, in a thread of its own.

    A connection has a few seconds to prove it, and one of the slots of its address. When all
    are taken, the server closes the oldest, so that idle strangers keep nobody out. Addresses
    that have proven the secret before share no slots with unknown ones.
    """

    def __init__(
        self,
        listening: socket.socket,
        secret: bytes,
        serve: Callable[[Channel], None],
        tell: Callable[[str], None],
    ) -> None:
        """Serve on `listening`; report clients that do not know the secret to `tell`."""
        self._listening, self._secret, self._serve = listening, secret, serve
        self._strangers, self._lock = Strangers(tell), threading.Lock()
        self._unproven: defaultdict[str, list[socket.socket]] = defaultdict(list)
        self._known: set[str] = set()
        self._is_closed, self.crowded_at = False, float("-inf")
        listening.settimeout(None)
        threading.Thread(target=self._accept, name="server", daemon=True).start()

    def close(self) -> None:
        """Stop listening. Connections that have proven the secret stay."""
        self._is_closed = True
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                connection, address = self._listening.accept()
            except OSError:  # closed, or too many files are open
                time.sleep(0 if self._is_closed else ACCEPT_AGAIN_SECONDS)
                continue
            host = str(address[0]) if address else "this machine"
            with self._lock:
                self._make_room(host)
                self._unproven[host].append(connection)
            threading.Thread(target=self._meet, args=(connection, host), daemon=True).start()

    def _make_room(self, host: str) -> None:
        unknown = [one for one in self._unproven if one not in self._known]
        crowded = host
        if len(self._unproven[host]) < PLACES_PER_ADDRESS:
            taken = sum(len(self._unproven[one]) for one in unknown)
            if host in self._known or taken < PLACES_FOR_UNKNOWN:
                return
            crowded = max(unknown, key=lambda one: len(self._unproven[one]))
        with suppress(OSError):
            self._unproven[crowded].pop(0).shutdown(socket.SHUT_RDWR)
        self._strangers.refused(crowded)
        self.crowded_at = time.monotonic()

    def _meet(self, connection: socket.socket, host: str) -> None:
        with connection:
            channel, is_stranger = None, False
            try:
                channel = accept(connection, self._secret, HANDSHAKE_SECONDS)
            except PortCheckedError:
                pass
            except (StrangerError, OSError):
                is_stranger = True
            had_place = self._leave_place(host, connection, is_known=channel is not None)
            if is_stranger and had_place:
                self._strangers.refused(host)
            if channel is not None:
                with suppress(StrangerError, OSError):  # it left, or is a stranger
                    self._serve(channel)

    def _leave_place(self, host: str, connection: socket.socket, *, is_known: bool) -> bool:
        with self._lock:
            if is_known:
                self._known.add(host)
            had_place = connection in self._unproven[host]
            if had_place:
                self._unproven[host].remove(connection)
            if not self._unproven[host]:
                del self._unproven[host]
            return had_place
