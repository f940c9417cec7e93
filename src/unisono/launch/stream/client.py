"""The connection to the record server of one machine, over the user's own ssh."""

import os
import secrets
import select
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from unisono.errors import DataError
from unisono.launch.error_output import ErrorOutput, exit_code_of
from unisono.launch.probe_client import MOST_FOREIGN_LINES, UnreachableError, ssh_advice
from unisono.launch.ssh import SSH_FAILED, Ssh
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

# A machine that says nothing for so long is asked again over a new connection.
SILENT_SECONDS = 30.0
# So fast an answer has to come: whoever sends a byte now and then holds nobody up.
SLOWEST_BYTES_PER_SECOND = 1000
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
        self._buffer = bytearray()
        self.identity, self.has_run = "", False

    def __enter__(self) -> "StreamClient":
        try:
            self._process = subprocess.Popen(
                self._remote.command(self._host),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,  # Ctrl-C at a terminal is for us: there is more to fetch
            )
        except OSError as error:
            raise UnreachableError(f"cannot start ssh: {error.strerror}") from error
        self._errors = ErrorOutput(self._process.stderr)
        try:
            self._greet()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        with self._asking:  # whoever asks in another thread sees that it has ended
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()

    def ask(self, request: StreamRequest, reply: type[ReplyT], payload: bytes = b"") -> ReplyT:
        """Send a request and return its answer; a refusal is a DataError."""
        return self.fetch(request, reply, payload)[0]

    def fetch(
        self, request: StreamRequest, reply: type[ReplyT], payload: bytes = b""
    ) -> tuple[ReplyT, bytes]:
        """Send a request and return its answer with the bytes that follow it."""
        with self._asking:
            if self._process.poll() is not None:
                raise self._gone()
            self._send(msgspec.json.encode(request) + b"\n" + payload)
            most = LONGEST_STREAM_MESSAGE if reply in LONG_REPLIES else LONGEST_ANSWER
            return self._answer(self._line(most), reply)

    def _greet(self) -> None:
        """Ask for the directory, and pass over what the shell there prints before."""
        token = secrets.token_hex(16)
        greeting = Greet(self._remote.run, token, self._create)
        self._send(msgspec.json.encode(greeting) + b"\n")
        for _ in range(MOST_FOREIGN_LINES):
            line = self._line(LONGEST_STREAM_MESSAGE)
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
        return answer, self._take(length)

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        deadline = time.monotonic() + SILENT_SECONDS
        stream = self._process.stdin
        while view and stream is not None:
            if not select.select([], [stream], [], max(0.0, deadline - time.monotonic()))[1]:
                raise UnreachableError("it takes nothing any more")
            try:
                view = view[os.write(stream.fileno(), view[: select.PIPE_BUF]) :]
            except OSError:
                raise self._gone() from None
            deadline = time.monotonic() + SILENT_SECONDS

    def _line(self, most: int) -> bytes:
        began, searched = time.monotonic(), 0
        while (end := self._buffer.find(b"\n", searched)) < 0 and len(self._buffer) < most:
            searched = len(self._buffer)
            self._receive(began)
        if not 0 <= end < most:
            raise UnreachableError("its record server answers too much")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _take(self, length: int) -> bytes:
        began = time.monotonic()
        while len(self._buffer) < length:
            self._receive(began)
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        return data

    def _receive(self, began: float) -> None:
        """Wait for more of an answer whose first byte was awaited from `began` on."""
        stream = self._process.stdout
        allowed = SILENT_SECONDS + len(self._buffer) / SLOWEST_BYTES_PER_SECOND
        left = min(SILENT_SECONDS, began + allowed - time.monotonic())
        if stream is None or not select.select([stream], [], [], max(0.0, left))[0]:
            slow = "it answers too slowly"
            silent = f"it has not answered for {SILENT_SECONDS:.0f} s"
            raise UnreachableError(slow if self._buffer else silent)
        data = os.read(stream.fileno(), 1 << 20)
        if not data:
            raise self._gone()
        self._buffer += data

    def _gone(self) -> UnreachableError:
        code, last = exit_code_of(self._process), self._errors.last_line()
        if code == SSH_FAILED:
            return UnreachableError(f"ssh: {last}", ssh_advice(last, self._host))
        return UnreachableError(f"its record server ended with exit code {code}: {last}")
