"""A program on another machine, reached over ssh by lines and bytes, with limits on both."""

import os
import select
import subprocess
import time
from collections.abc import Sequence

from unisono.launch.error_output import ErrorOutput, exit_code_of
from unisono.launch.probe_client import UnreachableError, ssh_advice
from unisono.launch.ssh import SSH_FAILED

# A machine that says nothing for so long is asked again over a new connection.
SILENT_SECONDS = 30.0
# So fast an answer has to come: whoever sends a byte now and then holds nobody up.
SLOWEST_BYTES_PER_SECOND = 1000


class SshPipe:
    """The input and output of `command`; `name` is what errors call the program."""

    def __init__(self, command: Sequence[str], host: str, name: str) -> None:
        self._host, self._name = host, name
        self._buffer = bytearray()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,  # Ctrl-C at a terminal is for us: there is more to do
            )
        except OSError as error:
            raise UnreachableError(f"cannot start ssh: {error.strerror}") from error
        self._errors = ErrorOutput(self._process.stderr)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of ssh, or None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End the connection; whoever uses it in another thread gets an error."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the connection and close its streams."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def send(self, data: bytes) -> None:
        """Send all of `data`."""
        view = memoryview(data)
        deadline = time.monotonic() + SILENT_SECONDS
        stream = self._process.stdin
        while view and stream is not None:
            if not select.select([], [stream], [], max(0.0, deadline - time.monotonic()))[1]:
                raise UnreachableError("it takes nothing any more")
            try:
                view = view[os.write(stream.fileno(), view[: select.PIPE_BUF]) :]
            except OSError:
                raise self.gone() from None
            deadline = time.monotonic() + SILENT_SECONDS

    def line(self, most: int, seconds: float | None = None) -> bytes:
        """Return the next line without its end, of less than `most` bytes.

        It may take `seconds` to begin; None is the usual time.
        """
        seconds = SILENT_SECONDS if seconds is None else seconds
        began, searched = time.monotonic(), 0
        while (end := self._buffer.find(b"\n", searched)) < 0 and len(self._buffer) < most:
            searched = len(self._buffer)
            self._receive(began, seconds)
        if not 0 <= end < most:
            raise UnreachableError(f"its {self._name} answers too much")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def take(self, length: int) -> bytes:
        """Return the next `length` bytes."""
        began = time.monotonic()
        while len(self._buffer) < length:
            self._receive(began, SILENT_SECONDS)
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        return data

    def _receive(self, began: float, seconds: float) -> None:
        """Wait for more of an answer whose first byte was awaited from `began` on."""
        stream = self._process.stdout
        allowed = seconds + len(self._buffer) / SLOWEST_BYTES_PER_SECOND
        left = min(seconds, began + allowed - time.monotonic())
        if stream is None or not select.select([stream], [], [], max(0.0, left))[0]:
            slow = "it answers too slowly"
            silent = f"it has not answered for {seconds:.0f} s"
            raise UnreachableError(slow if self._buffer else silent)
        data = os.read(stream.fileno(), 1 << 20)
        if not data:
            raise self.gone()
        self._buffer += data

    def gone(self) -> UnreachableError:
        """Return why the connection has ended."""
        code, last = exit_code_of(self._process), self._errors.last_line()
        if code == SSH_FAILED:
            return UnreachableError(f"ssh: {last}", ssh_advice(last, self._host))
        return UnreachableError(f"its {self._name} ended with exit code {code}: {last}")
