"""The server on a machine: it takes files, puts them in their places and makes an environment.

    python -m unisono.launch.bring.server BASE TOKEN

`bootstrap` becomes this program when Unisono's code is there; nothing but Python's own library
is. A request is a line of JSON, and `length` bytes follow it where it has that field; a reply
is a line of JSON, and long work sends lines of its progress before it.
"""

import errno
import fcntl
import json
import os
import select
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from unisono.errors import UnisonoError
from unisono.launch.bring import environment
from unisono.launch.bring.relay import ContentServer, fetch, own_addresses
from unisono.launch.bring.room import on_disk
from unisono.launch.bring.trees import FileEntry, Trees, hash_of, is_safe_name
from unisono.launch.bring.unused import note_run, unused

# A launcher that says nothing for so long is gone, and so is its connection.
SILENT_LAUNCHER_SECONDS = 25.0
# A server whose launcher has gone may take that long to notice.
BUSY_SECONDS = 40.0
MOST_LENGTH = 1 << 24
LONGEST_REQUEST = 1 << 26
Message = dict[str, Any]


class BringServer:
    """Answers the requests of one launcher; `read` returns exactly as many bytes as asked."""

    def __init__(self, base: Path, say: Callable[[Message], None]) -> None:
        self.trees, self._say = Trees(base), say
        self._actions: dict[str, Callable[[Message], Message]] = {
            "keep": lambda _: {},
            "expect": self._expect,
            "place": self._place,
            "build": self._build,
            "python": self._python,
            "room": self._room,
            "unused": self._unused,
            "serve": self._serve,
            "fetch": self._fetch,
        }

    def answer(self, request: Message, payload: bytes) -> None:
        """Do what a request asks, and say how it went."""
        try:
            if request["do"] == "write":
                reply = self._write(request, payload)
            else:
                reply = self._actions[request["do"]](request)
        except UnisonoError as error:
            reply = {"refused": {"what": error.what, "where": error.where, "fix": error.fix}}
        except OSError as error:
            reply = {"refused": self._explained(error)}
        except (ValueError, KeyError) as error:
            reply = {"refused": {"what": str(error)}}
        self._say(reply)

    def _explained(self, error: OSError) -> Message:
        free = shutil.disk_usage(self.trees.base).free
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            self._clean()
            fix = "make room there, or choose a directory on another disk with --directory"
            what = f"there is no room left ({free / 1e6:,.0f} MB when it failed)"
            return {"what": what, "where": str(self.trees.base), "fix": fix}
        return {"what": error.strerror or str(error), "where": str(error.filename or "")}

    def _clean(self) -> None:
        """Remove all that is not whole: on a full disk it helps nobody."""
        shutil.rmtree(self.trees.unfinished, ignore_errors=True)
        self.trees.unfinished.mkdir(mode=0o700, exist_ok=True)

    def _room(self, request: Message) -> Message:
        """Return how much room the lacking files need."""
        lacking = [
            file
            for tree in request["trees"]
            for file in self.trees.compared(_tree(tree), _files(tree))[1]
        ]
        arrived = sum(
            path.stat().st_size
            for digest in {digest for _, _, digest in lacking}
            for path in self._paths(digest)
            if path.is_file()
        )
        needed = on_disk(size for _, size, _ in lacking) - arrived
        free = shutil.disk_usage(self.trees.base).free
        return {"needed": max(0, needed), "free": free}

    def _unused(self, request: Message) -> Message:
        note_run(self.trees.base, str(request["run"]), map(str, request["python"]))
        needed = map(str, request["needed"])
        return {"trees": unused(self.trees, needed, remove=bool(request["remove"]))}

    def _expect(self, request: Message) -> Message:
        files = _files(request)
        missing = self.trees.missing(_tree(request), files)
        needed = {digest: size for _, size, digest in missing}
        return {
            "missing": [
                (digest, size, self._arrived(digest, size)) for digest, size in needed.items()
            ]
        }

    def _arrived(self, digest: str, size: int) -> int:
        """Return how much of a content has arrived; a part of another directory counts."""
        whole, part = self._paths(digest)
        if whole.is_file():
            return size
        if found := self.trees.find(size, digest):
            shutil.copyfile(found, part)
            return self._finish(digest, size)
        return part.stat().st_size if part.is_file() else 0

    def _paths(self, digest: str) -> tuple[Path, Path]:
        if len(digest) != 64 or not all(letter in "0123456789abcdef" for letter in digest):
            raise ValueError(f"{digest[:100]!r} is not a SHA-256")
        return self.trees.unfinished / digest, self.trees.unfinished / f"{digest}.part"

    def _write(self, request: Message, payload: bytes) -> Message:
        digest, size, offset = request["sha256"], request["size"], request["offset"]
        _, part = self._paths(digest)
        have = part.stat().st_size if part.is_file() else 0
        if offset != have:
            raise ValueError(f"{have} bytes are there, and {offset} came next")
        with part.open("ab") as file:
            file.write(payload)
        if have + len(payload) < size:
            return {"have": have + len(payload)}
        return {"have": self._finish(digest, size)}

    def _finish(self, digest: str, size: int) -> int:
        whole, part = self._paths(digest)
        if part.stat().st_size != size or hash_of(part) != digest:
            part.unlink()
            raise UnisonoError(
                "a file arrived with another content than its hash says",
                where=digest,
                fix="the file here has changed since it was made, or the network damages data",
            )
        part.replace(whole)
        return size

    def _place(self, request: Message) -> Message:
        self.trees.place(_tree(request), _files(request))
        return {"placed": True}

    def _build(self, request: Message) -> Message:
        wanted = environment.Wanted(
            name=_tree(request),
            material=self.trees.base / request["material"],
            locks=tuple(request["locks"]),
            offline=bool(request["offline"]),
        )
        return {"built": environment.build(self.trees, wanted, self._progress)}

    def _progress(self, text: str) -> None:
        self._say({"progress": text})

    def _serve(self, request: Message) -> Message:
        self._contents = ContentServer(self.trees, bytes.fromhex(request["secret"]))
        return {"port": self._contents.port, "addresses": own_addresses()}

    def _fetch(self, request: Message) -> Message:
        digest, size = request["sha256"], request["size"]
        have = fetch(request, self._paths(digest)[1], lambda n: self._progress(str(n)))
        return {"have": self._finish(digest, size) if have == size else have}

    def _python(self, request: Message) -> Message:
        name, code, packages = _tree(request), request["code"], request["environment"]
        return {"python": str(environment.join(self.trees, name, code, packages))}


def _tree(request: Message) -> str:
    tree = request["tree"]
    if not is_safe_name(tree) or "/" in tree or tree.startswith("."):
        raise ValueError(f"{tree!r} cannot be the name of a directory")
    return str(tree)


def _files(request: Message) -> list[FileEntry]:
    files = [(str(name), int(size), str(digest)) for name, size, digest in request["files"]]
    if wrong := next((name for name, _, _ in files if not is_safe_name(name)), ""):
        raise ValueError(f"{wrong!r} cannot be the name of a file")
    return files


class Pipe:
    """Standard input and output, without a buffer that would keep what comes next."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def say(self, message: Message) -> None:
        """Send one message."""
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[os.write(1, data) :]

    def request(self) -> tuple[Message, bytes] | None:
        """Return the next request with its bytes, or None if the launcher is gone."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > LONGEST_REQUEST or not self._receive():
                return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        request = json.loads(line)
        length = min(int(request.get("length", 0)), MOST_LENGTH)
        while len(self._buffer) < length:
            if not self._receive():
                return None
        payload = bytes(self._buffer[:length])
        del self._buffer[:length]
        return request, payload

    def _receive(self) -> bool:
        if not select.select([0], [], [], SILENT_LAUNCHER_SECONDS)[0]:
            return False
        data = os.read(0, 1 << 20)
        self._buffer += data
        return bool(data)


def serve(base: Path, token: str) -> None:
    """Greet the launcher and answer it until it leaves."""
    pipe = Pipe()
    with (base / ".lock").open("wb") as held:
        deadline = time.monotonic() + BUSY_SECONDS
        while not _locked(held.fileno()):
            if time.monotonic() > deadline:
                what = "another launch is bringing something to this machine"
                refused = {"what": what, "where": str(base), "fix": "wait until it has ended"}
                pipe.say({"token": token, "refused": refused})
                return
            time.sleep(0.2)
        server = BringServer(base, pipe.say)
        pipe.say({"token": token})
        while request := pipe.request():
            server.answer(*request)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve(Path(sys.argv[1]), sys.argv[2])
