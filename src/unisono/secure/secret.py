"""The secret of a run, which its launcher hands to all of its processes."""

import os
import secrets
import stat
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from unisono.errors import ConfigError

SECRET = "UNISONO_SECRET"
SECRET_FILE = "UNISONO_SECRET_FILE"
SECRET_BYTES = 32
MOST_FILE_BYTES = 4096


def new_secret() -> str:
    """Return a secret for one run."""
    return secrets.token_hex(SECRET_BYTES)


def secret_of(environ: Mapping[str, str]) -> bytes:
    """Return the secret that the launcher handed over, or nothing if it handed over none.

    It is in the environment, or in a file that nobody but its owner may read.
    """
    path, text = environ.get(SECRET_FILE, ""), environ.get(SECRET, "")
    if path and not text:
        text = _read_secret(Path(path))
    if not text and not path:
        return b""
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) < SECRET_BYTES:
        raise ConfigError(
            f"the secret of the run is not {SECRET_BYTES} bytes written as hexadecimal digits",
            where=path or SECRET,
            fix="write a new one: python -c 'import secrets; print(secrets.token_hex(32))'",
        )
    return secret


def ensure_secret(environ: MutableMapping[str, str]) -> None:
    """Put a new secret into `environ` if there is none."""
    if not secret_of(environ):
        environ[SECRET] = new_secret()


def _read_secret(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or stat.S_IMODE(mode) & 0o077:
                raise ConfigError(
                    "other users may read the file with the secret of the run",
                    where=str(path),
                    fix=f"chmod 600 {path}",
                )
            return file.read(MOST_FILE_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(
            f"the secret of the run cannot be read: {error.strerror}",
            where=str(path),
            fix=f"point {SECRET_FILE} to the file that the launcher wrote",
        ) from error
