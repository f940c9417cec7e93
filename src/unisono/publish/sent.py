"""What of a run was sent where: a file for each address, so that nothing goes there twice.

The files are `published/KIND-HASH.json` in the run directory. They hold no address, only its
hash, because an address may hold a token.
"""

import os
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from unisono import atomic
from unisono.errors import ConfigError
from unisono.lock import lock
from unisono.small_files import PARSER_ERRORS, read_bytes

SENT_DIRECTORY = "published"
HASH_DIGITS = 16
T = TypeVar("T")


class SentStore(Generic[T]):
    """Keeps what an address has taken; one process at a time may send to it.

    `record` is what it keeps: a struct whose fields all have defaults.
    """

    def __init__(self, run: Path, kind: str, address_hash: str, record: type[T]) -> None:
        self._record = record
        self._path = run / SENT_DIRECTORY / f"{kind}-{address_hash[:HASH_DIGITS]}.json"
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
            lock(self._lock)
        except BlockingIOError as error:
            raise ConfigError(
                f"another `unisono publish` sends this run to the same {kind}",
                where=str(run),
                fix="leave it to that one, or end it first",
            ) from error
        except OSError as error:
            raise ConfigError(
                f"what was sent cannot be remembered: {error.strerror}",
                where=str(self._path.parent),
                fix="make the run directory writable for the user who publishes",
            ) from error

    def read(self) -> T:
        """Return what was taken; of a missing or damaged file: nothing was."""
        try:
            return msgspec.json.decode(read_bytes(self._path), type=self._record)
        except (OSError, *PARSER_ERRORS):
            return self._record()

    def write(self, sent: T) -> None:
        """Remember what was taken."""
        atomic.write_bytes(self._path, msgspec.json.encode(sent), mode=0o600)

    def close(self) -> None:
        """Let another process send there."""
        os.close(self._lock)
