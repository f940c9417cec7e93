"""The connection over which things are brought to one machine."""

import io
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from unisono.clock_skew import ClockOffset, offset_between
from unisono.errors import RunError
from unisono.launch.bring import bootstrap
from unisono.launch.bring.package import CodeArchive
from unisono.launch.bring.payload import BroughtFile, BroughtTree
from unisono.launch.bring.replies import (
    Arrived,
    Done,
    FirstLine,
    MachineState,
    MissingContents,
    Refusal,
    ServerLine,
)
from unisono.launch.bring.room import check_room
from unisono.launch.probe_client import MOST_FOREIGN_LINES, UnreachableError
from unisono.launch.ssh import NO_PYTHON, Ssh
from unisono.launch.ssh_pipe import SshPipe
from unisono.small_files import open_regular

LONGEST_BRING_ANSWER = 1 << 26
PART_BYTES = 1 << 19
# Chunks on their way at once: with 8 MiB, a round trip of 0.1 s still lets 80 MB/s pass.
MOST_UNANSWERED = 16
KEEP_SECONDS = 8.0
START_SECONDS, WORK_SECONDS = 60.0, 1800.0
ReplyT = TypeVar("ReplyT", bound=msgspec.Struct)


@dataclass(frozen=True)
class BringTarget:
    """A machine as ssh knows it, the Pythons to try there, and the directory for all."""

    ssh: Ssh
    host: str
    pythons: tuple[str, ...]
    directory: str


class BringClient:
    """Brings things to one machine, from entering to leaving the `with` block."""

    def __init__(
        self,
        target: BringTarget,
        code: CodeArchive,
        *,
        further_bytes: int = 0,
        look: bool = False,
    ) -> None:
        """Connect to `target` for `code`, after which come `further_bytes`; or only `look`."""
        self._target, self._code, self._look = target, code, look
        self._further_bytes = further_bytes
        self._asking, self._left = threading.Lock(), threading.Event()
        self.state: MachineState
        self.clock = ClockOffset()

    def __enter__(self) -> "BringClient":
        target = self._target
        source = Path(bootstrap.__file__).read_text("utf-8")
        command = target.ssh.program(target.host, target.pythons, source)
        self._pipe = SshPipe(command, target.host, "server")
        try:
            self._begin()
        except BaseException:
            self._pipe.close()
            raise
        if not self._look:
            threading.Thread(target=self._keep, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._pipe.kill()
        with self._asking:  # whoever asks in another thread sees that it has ended
            self._pipe.close()

    def _begin(self) -> None:
        token, code = secrets.token_hex(16), self._code
        greeting = {
            "token": token,
            "directory": self._target.directory,
            "look": self._look,
            "code": code.name,
            "tree": code.tree,
            "sha256": code.sha256,
            "length": len(code.data),
        }
        try:
            sent = time.time()
            self._pipe.send(msgspec.json.encode(greeting) + b"\n")
            self.state = self._first(token, MachineState)
            self.clock = offset_between(sent, self.state.time, time.time())
        except UnreachableError as error:
            raise self._without_python(error) from None
        if self._look:
            return
        if not self.state.has:
            # A machine that has a part of something says later what it lacks.
            further = 0 if self.state.trees else self._further_bytes
            needed = code.unpacked_bytes + further
            check_room(needed, self.state.free, self._target.directory)
            self._pipe.send(code.data)
        self._first(token, FirstLine)

    def _without_python(self, error: UnreachableError) -> UnreachableError:
        if self._pipe.exit_code != NO_PYTHON:
            return error
        tried = ", ".join(self._target.pythons)
        return UnreachableError(
            f"there is no Python ({tried})",
            "install Python 3.11 there, such as apt-get install python3, or name it with "
            "--python",
        )

    def _first(self, token: str, reply: type[ReplyT]) -> ReplyT:
        """Return the first answer; pass over what the shell there prints before."""
        for _ in range(MOST_FOREIGN_LINES):
            line = self._pipe.line(LONGEST_BRING_ANSWER, START_SECONDS)
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                found = msgspec.json.decode(line, type=FirstLine)
                if found.token == token and found.refused:
                    self._raise(found.refused)
                if found.token == token:
                    return msgspec.json.decode(line, type=reply)
        raise UnreachableError("its shell prints too much before our program starts")

    def ask(
        self,
        request: dict[str, Any],
        reply: type[ReplyT],
        progress: Callable[[str], None] = lambda _: None,
    ) -> ReplyT:
        """Send a request and return its answer; a refusal is a RunError."""
        with self._asking:
            self._pipe.send(msgspec.json.encode(request) + b"\n")
            return self._answer(reply, progress)

    def missing(self, tree: BroughtTree) -> MissingContents:
        """Announce a directory; return what the machine lacks of it."""
        return self.ask({"do": "expect", **described(tree)}, MissingContents)

    def write(
        self, file: BroughtFile, offset: int, until: Callable[[], bool] = lambda: False
    ) -> Iterator[int]:
        """Send a content from `offset` on, `until` told to stop; yield how much is there."""
        with self._asking:
            unanswered = 0
            for start, chunk in _chunks(file, offset):
                if until():
                    break
                request = {"do": "write", "sha256": file.sha256, "size": file.size}
                request |= {"offset": start, "length": len(chunk)}
                self._pipe.send(msgspec.json.encode(request) + b"\n" + chunk)
                unanswered += 1
                if unanswered == MOST_UNANSWERED:
                    unanswered -= 1
                    yield self._answer(Arrived).have
            for _ in range(unanswered):
                yield self._answer(Arrived).have

    def _answer(
        self, reply: type[ReplyT], progress: Callable[[str], None] = lambda _: None
    ) -> ReplyT:
        while True:
            line = self._pipe.line(
                LONGEST_BRING_ANSWER, START_SECONDS if reply is Arrived else WORK_SECONDS
            )
            try:
                found = msgspec.json.decode(line, type=ServerLine)
                if found.refused:
                    self._raise(found.refused)
                if not found.progress:
                    return msgspec.json.decode(line, type=reply)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise UnreachableError("its server answers what nobody asked") from error
            progress(found.progress)

    def _raise(self, refused: Refusal) -> NoReturn:
        raise RunError(refused.what, where=refused.where, fix=refused.fix)

    def _keep(self) -> None:
        """Show the server that we are alive while we ask for nothing."""
        while not self._left.wait(KEEP_SECONDS):
            with self._asking, suppress(UnreachableError, RunError):
                if self._left.is_set():
                    return
                self._pipe.send(b'{"do": "keep"}\n')
                self._answer(Done)


def described(tree: BroughtTree) -> dict[str, Any]:
    """Return how a server is told about a directory."""
    return {"tree": tree.name, "files": [one.entry for one in tree.files]}


def _chunks(file: BroughtFile, offset: int) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a file from `offset` on; an empty file has one."""
    with (
        io.BytesIO(file.content)
        if isinstance(file.content, bytes)
        else open_regular(file.content) as source
    ):
        source.seek(offset)
        while (chunk := source.read(PART_BYTES)) or not file.size:
            yield offset, chunk
            offset += len(chunk)
            if not file.size:
                return
