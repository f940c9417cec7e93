"""Who may ask, and how often."""

import hashlib
import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from unisono.errors import ConfigError
from unisono.serve.requests import RequestError
from unisono.small_files import TOML_BYTES, read_bytes, reason

SHORTEST_KEY = 8
MOST_CLIENTS = 10_000


class ApiKeys:
    """The keys of a file, one a line, kept as hashes; "#" begins a comment.

    Without a file everybody may ask.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._hashes = {_hashed(key) for key in _read_keys(path)} if path else set()

    @property
    def are_required(self) -> bool:
        return bool(self._hashes)

    def check(self, key: str) -> None:
        """Raise an error unless this key is among them."""
        if not self._hashes:
            return
        if not key:
            raise RequestError(403, "an API key is required: send it as api_key")
        given = _hashed(key)
        # Every hash is compared in full: how long it takes tells nothing about the keys.
        if not sum(hmac.compare_digest(given, known) for known in self._hashes):
            raise RequestError(403, "Invalid API key")


def _hashed(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _read_keys(path: Path) -> list[str]:
    try:
        lines = read_bytes(path, TOML_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the keys cannot be read: {reason(error)}",
            where=str(path),
            fix="name a text file with a key on each line",
        ) from error
    keys = [line.partition("#")[0].strip() for line in lines]
    for number, key in enumerate(keys, start=1):
        if key and len(key) < SHORTEST_KEY:
            raise ConfigError(
                f"the key on line {number} has under {SHORTEST_KEY} characters",
                where=str(path),
                fix="make one: python -c 'import secrets; print(secrets.token_urlsafe())'",
            )
    if not any(keys):
        raise ConfigError(
            "there is no key in this file",
            where=str(path),
            fix="write a key on each line, or leave out --keys",
        )
    return [key for key in keys if key]


class RateLimit:
    """So many requests a minute for each client, which may come all at once.

    For each client the limit keeps one moment: when what it has used so far is paid back. Only
    the clients that asked last are remembered, so that strangers cannot fill the memory.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._paid_back: OrderedDict[str, float] = OrderedDict()

    def count(self, client: str) -> None:
        """Count a request; raise an error if it is one too many."""
        if not self._per_minute:
            return
        now, each = self._clock(), 60 / self._per_minute
        paid_back = max(now, self._paid_back.get(client, now)) + each
        if paid_back - now > 60 + 1e-6:
            wait = math.ceil(paid_back - now - 60)
            raise RequestError(
                429, f"Slowdown: {self._per_minute} per 1 minute; try in {wait} s", wait
            )
        self._paid_back[client] = paid_back
        self._paid_back.move_to_end(client)
        while len(self._paid_back) > MOST_CLIENTS:
            self._paid_back.popitem(last=False)
