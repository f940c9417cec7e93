"""The connection to the record server of one machine, over the user's own ssh."""

import secrets
import threading
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from unisono.errors import DataError
from unisono.launch.probe_client import MOST_FOREIGN_LINES, UnreachableError
from unisono.launch.ssh import Ssh
from unisono.launch.ssh_pipe import SshPipe
from unisono.launch.stream.messages import (
    LONGEST_STREAM_MESSAGE,
    MOST_PAYLOAD_BYTES,
    Greet,
    Greeted,
    Offsets,
    RecordBytes,
    RecordList,
    Refused,
    StreamReply,
    StreamRequest,
)

LONGEST_ANSWER = 4096
ReplyT = TypeVar("ReplyT", bound=StreamReply)
LONG_REPLIES = (RecordList, Offsets)


class RemoteMachine(msgspec.Struct, frozen=True):
    """A machine as ssh knows it, its Python, and the directory in which the run was started."""

    host: str
    python: str
    directory: str


@dataclass(frozen=True)
class RemoteRun:
    """A run directory on other machines: `run`, seen from the directory of each."""

    ssh: Ssh
    run: str
    machines: tuple[RemoteMachine, ...]

    def command(self, host: str) -> tuple[str, ...]:
        """Return the command that serves the records of this run on `host`."""
        machine = next(one for one in self.machines if one.host == host)
        words = (machine.python, "-m", "unisono.launch.stream.server")
        return self.ssh.command(host, words, directory=machine.directory)


class StreamClient:
    """Asks the record server of `host`, from entering to leaving the `with` block."""

    def __init__(self, remote: RemoteRun, host: str, *, create: bool) -> None:
        self._remote, self._host, self._create = remote, host, create
        self._asking = threading.Lock()
        self.identity, self.has_run = "", False

    def __enter__(self) -> "StreamClient":
        self._pipe = SshPipe(self._remote.command(self._host), self._host, "record server")
        try:
            self._greet()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.kill()
        with self._asking:  # whoever asks in another thread sees that it has ended
            self._pipe.close()

    def ask(self, request: StreamRequest, reply: type[ReplyT], payload: bytes = b"") -> ReplyT:
        """Send a request and return its answer; a refusal is a DataError."""
        return self.fetch(request, reply, payload)[0]

    def fetch(
        self, request: StreamRequest, reply: type[ReplyT], payload: bytes = b""
    ) -> tuple[ReplyT, bytes]:
        """Send a request and return its answer with the bytes that follow it."""
        with self._asking:
            if self._pipe.exit_code is not None:
                raise self._pipe.gone()
            self._pipe.send(msgspec.json.encode(request) + b"\n" + payload)
            most = LONGEST_STREAM_MESSAGE if reply in LONG_REPLIES else LONGEST_ANSWER
            return self._answer(self._pipe.line(most), reply)

    def _greet(self) -> None:
        """Ask for the directory, and pass over what the shell there prints before."""
        token = secrets.token_hex(16)
        greeting = Greet(self._remote.run, token, self._create)
        self._pipe.send(msgspec.json.encode(greeting) + b"\n")
        for _ in range(MOST_FOREIGN_LINES):
            line = self._pipe.line(LONGEST_STREAM_MESSAGE)
            try:
                answer = msgspec.json.decode(line, type=Greeted | Refused)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if isinstance(answer, Refused):
                raise DataError(answer.what, where=answer.where, fix=answer.fix)
            if answer.token == token:
                self.identity, self.has_run = answer.identity, answer.has_run
                return
        raise UnreachableError("its shell prints too much before our program starts")

    def _answer(self, line: bytes, reply: type[ReplyT]) -> tuple[ReplyT, bytes]:
        try:
            answer = msgspec.json.decode(line, type=reply | Refused)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnreachableError("its record server answers what nobody asked") from error
        if isinstance(answer, Refused):
            raise DataError(answer.what, where=answer.where or self._host, fix=answer.fix)
        length = answer.length if isinstance(answer, RecordBytes) else 0
        if length > MOST_PAYLOAD_BYTES:
            raise UnreachableError("its record server sends too much at once")
        return answer, self._pipe.take(length)
