"""Unix sockets in a directory that nobody but their user can enter."""

import fcntl
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unisono.errors import RunError

BACKLOG = 1024
LONGEST_DIRECTORY = 60  # the path of a socket has at most 107 bytes
SHORT_DIRECTORY = "/tmp"


def private_directory() -> Path:
    """Return the directory for the sockets of this user; make it if there is none."""
    base = tempfile.gettempdir()
    path = Path(base if len(base) <= LONGEST_DIRECTORY else SHORT_DIRECTORY)
    path /= f"unisono-{os.geteuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise RunError(
            f"cannot make a directory for sockets: {error.strerror}",
            where=str(path),
            fix="set TMPDIR to a directory in which you may write",
        ) from error
    is_private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    if not is_private or found.st_uid != os.geteuid():
        raise RunError(
            "other users can enter the directory for sockets, or it is not yours",
            where=str(path),
            fix=f"remove {path}, or set TMPDIR to a directory of your own",
        )
    return path


def private_path(name: str) -> str:
    """Return the path of the socket `name`."""
    # Like a port, a name belongs to one network: containers may share the directory.
    network = Path("/proc/self/ns/net").stat().st_ino
    return str(private_directory() / f"{name}-{network}")


def listen_private(name: str) -> tuple[socket.socket, str]:
    """Return a socket that listens under `name`, and its path; a name in use is an error."""
    path = private_path(name)
    with _alone_in(Path(path).parent):
        for other in Path(path).parent.iterdir():
            if other.is_socket() and not is_served(str(other)):
                other.unlink()  # its process died
        if Path(path).exists():
            raise RunError(
                f"cannot listen at {path}: another run uses it",
                where=f"process 0 on {socket.gethostname()}",
                fix="wait for its end, or set MASTER_PORT to another one everywhere",
            )
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(path)
        listening.listen(BACKLOG)
    return listening, path


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_served(path: str) -> bool:
    """Return whether a process listens at `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # its backlog is full
    return True
