"""From machine to machine: one serves the contents it has, another one fetches them.

The launcher hands both a secret over ssh; whoever does not know it gets nothing. Every frame
carries a keyed hash, and every content is checked by its own. Nothing is encrypted: the network
between the machines is one that its owner trusts, as for gradients. Only Python's own library.
"""

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from unisono.errors import RunError
from unisono.launch.bring.trees import Trees
from unisono.secure.channel import FRAME_BYTES, Channel, StrangerError, dial
from unisono.secure.server import SecureServer

DIAL_SECONDS = 3.0
FRAME_SECONDS = 40.0
# A content that is still arriving: how often to look, and how long it may stand still.
GROW_SECONDS, STANDSTILL_SECONDS = 0.05, 30.0
TELL_SECONDS = 1.0


class ContentServer:
    """Serves the contents of this machine, on a port that the system chooses."""

    def __init__(self, trees: Trees, secret: bytes) -> None:
        self._trees = trees
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        listening = socket.create_server(
            ("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6
        )
        self.port = int(listening.getsockname()[1])
        self._server = SecureServer(listening, secret, self._serve, lambda _: None)

    def _serve(self, channel: Channel) -> None:
        wanted = json.loads(channel.receive(FRAME_SECONDS))
        digest, size, offset = str(wanted["sha256"]), int(wanted["size"]), int(wanted["offset"])
        path = self._trees.source(digest, size)
        if path is None:
            channel.close()
            return
        with path.open("rb") as file:
            file.seek(offset)
            _send_as_it_grows(channel, file, size - offset)


def _send_as_it_grows(channel: Channel, file: BinaryIO, count: int) -> None:
    """Send `count` bytes of a file that may still be arriving; give up if it stops growing."""
    grew_at = time.monotonic()
    while count and time.monotonic() - grew_at < STANDSTILL_SECONDS:
        if data := file.read(FRAME_BYTES):
            channel.send(data, FRAME_SECONDS)
            grew_at, count = time.monotonic(), count - len(data)
        else:
            time.sleep(GROW_SECONDS)
    if count:
        channel.close()


def own_addresses() -> list[str]:
    """Return the address of this machine under which ssh reached it."""
    return os.environ.get("SSH_CONNECTION", "").split()[2:3]


def fetch(wanted: dict[str, Any], part: Path, progress: Callable[[int], None]) -> int:
    """Fetch a content into `part` from where it ends; return how much of it is there then.

    It stops after `wanted["seconds"]`, so that the launcher can compare.
    """
    channel = _connected(wanted)
    deadline = time.monotonic() + float(wanted["seconds"])
    told = time.monotonic()
    try:
        with part.open("ab") as file:
            have, size = file.tell(), int(wanted["size"])
            request = {"sha256": wanted["sha256"], "size": size, "offset": have}
            channel.send(json.dumps(request).encode(), FRAME_SECONDS)
            while have < size and time.monotonic() < deadline:
                have += file.write(channel.receive(FRAME_SECONDS))
                if time.monotonic() - told > TELL_SECONDS:
                    told = time.monotonic()
                    progress(have)
    except (StrangerError, TimeoutError, ConnectionError) as error:
        raise RunError(f"the other machine sends no more: {error}") from error
    finally:
        channel.close()
    return have


def _connected(wanted: dict[str, Any]) -> Channel:
    secret, port = bytes.fromhex(wanted["secret"]), int(wanted["port"])
    said = "no address"
    for address in wanted["addresses"]:
        try:
            return dial((str(address), port), secret, DIAL_SECONDS)
        except (OSError, StrangerError) as error:
            said = f"{address}: {error}"
    raise RunError(f"the other machine cannot be reached ({said})")
