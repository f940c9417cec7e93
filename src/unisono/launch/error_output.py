"""What a program on another machine says to standard error: read always, kept in part."""

import subprocess
import threading
from typing import IO

KEPT_BYTES = 1 << 16
EXIT_SECONDS = 5.0


class ErrorOutput:
    """Reads a stream to its end in a thread, and keeps the last of it, however much comes."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._kept = b""
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def last_line(self) -> str:
        """Return the last line that says something. The program has ended."""
        self._thread.join(EXIT_SECONDS)
        lines = self._kept.decode(errors="replace").split("\n")
        return next((one.strip() for one in reversed(lines) if one.strip()), "no reason given")

    def _read(self, stream: IO[bytes] | None) -> None:
        if stream is None:
            return
        with stream:
            while data := stream.read(KEPT_BYTES):
                self._kept = (self._kept + data)[-KEPT_BYTES:]


def exit_code_of(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a program that has closed its output; kill it if it stays."""
    try:
        return process.wait(EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
