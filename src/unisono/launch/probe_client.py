"""What a launcher asks a machine before a launch, and what it may hear: JSON, one a line.

Questions to a machine over ssh, answered by `unisono.launch.probe_server` there.
"""

import select
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from unisono.launch.over_ssh import LOST
from unisono.launch.ssh import Ssh


class Tell(msgspec.Struct, frozen=True, tag=True):
    """What is the time?"""


class ClockReading(msgspec.Struct, frozen=True, tag=True):
    """The time, in seconds since 1970."""

    time: float


class Describe(msgspec.Struct, frozen=True, tag=True):
    """Who are you, and what would you train?"""

    directory: str
    config: str
    overrides: tuple[str, ...] = ()


class Trouble(msgspec.Struct, frozen=True):
    """Something that keeps a machine from training: what, where, and what to do about it."""

    what: str
    where: str = ""
    fix: str = ""


class Facts(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A machine. What it does not know is empty.

    `address` is the one by which it was reached; `settings` are those of the run, all of them.
    """

    host: str = ""
    address: list[str] = []
    python: str = ""
    unisono: str = ""
    code: str = ""
    torch: str = ""
    settings: dict[str, Any] = {}
    corpus: str = ""
    pairs: int = 0
    run: str = ""
    free_bytes: int = 0
    needed_bytes: int = 0
    troubles: tuple[Trouble, ...] = ()


class Listen(msgspec.Struct, frozen=True, tag=True):
    """Take this port, and show the token to whoever calls."""

    port: int
    token: str


class Listening(msgspec.Struct, frozen=True, tag=True):
    """The port is taken."""


class Connect(msgspec.Struct, frozen=True, tag=True):
    """Call there; who answers with the token is the right one."""

    address: str
    port: int
    token: str


class Connected(msgspec.Struct, frozen=True, tag=True):
    """Somebody answered at this numeric address."""

    address: str
    is_right: bool


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It did not work."""

    what: str
    where: str = ""
    fix: str = ""


Question = Tell | Describe | Listen | Connect
Answer = ClockReading | Facts | Listening | Connected | Failed


# Time to connect and to import what the probe needs, maybe from a network disk.
ANSWER_SECONDS = 60.0
END_SECONDS = 5.0
# What the shell there may print before our program speaks.
MOST_FOREIGN_LINES = 200
NO_PROGRAM = (126, 127)
# What ssh says, and what helps.
ADVICE = {
    "could not resolve": "see how the name is written; ssh knows those of ~/.ssh/config, "
    "/etc/hosts and the DNS",
    "connection refused": "the machine is up, but no ssh server listens there: start it, or "
    "set its Port in ~/.ssh/config",
    "timed out": "see whether the machine is on, and whether a firewall lets ssh through",
    "no route to host": "see whether the machine is on, and whether its network is up",
    "host key verification failed": "its key is not known here, or has changed: `ssh {host} "
    "true` by hand shows it and asks",
    "permission denied": "it knows none of your keys: `ssh-copy-id {host}`, or set User and "
    "IdentityFile in ~/.ssh/config",
}
A = TypeVar("A", bound=Answer)


class UnreachableError(Exception):
    """A machine does not answer: why, and what to do about it."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


class ProbeClient:
    """A machine that is asked, until the end of the `with` block."""

    def __init__(self, ssh: Ssh, host: str, python: str) -> None:
        self._host, self._python = host, python
        self._command = probe_command(ssh, host, python)

    def __enter__(self) -> "ProbeClient":
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            # The probe may hold the port where the agents will meet.
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def ask(self, question: Question, answer: type[A]) -> A | Failed:
        """Ask, and wait for the answer."""
        if self._process.stdin is None:
            raise UnreachableError("it was never asked")
        try:
            self._process.stdin.write(msgspec.json.encode(question) + b"\n")
        except BrokenPipeError:
            raise self._gone() from None
        for _ in range(MOST_FOREIGN_LINES):
            line = self._line()
            try:
                return msgspec.json.decode(line, type=answer | Failed)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # the shell there has something to say at every start
        raise UnreachableError("it answers with something else", "look at its shell's profile")

    def _line(self) -> bytes:
        deadline, line = time.monotonic() + ANSWER_SECONDS, b""
        stream = self._process.stdout
        while stream is not None and not line.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            if not select.select([stream], [], [], left)[0]:
                raise UnreachableError(
                    f"it has not answered for {ANSWER_SECONDS:.0f} s",
                    f"see whether `ssh {self._host} true` is slow, or the disk of its Python",
                )
            data = stream.read(65536)
            if not data:
                raise self._gone()
            line += data
        return line

    def _gone(self) -> UnreachableError:
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").split("\n")
        last = next(
            (line.strip() for line in reversed(said) if line.strip()), "no reason given"
        )
        host, python = self._host, self._python
        if code == LOST:
            return UnreachableError(f"ssh cannot connect: {last}", what_to_do(last, host))
        if code in NO_PROGRAM:
            return UnreachableError(
                f"there is no Python at {python} ({last})", "name the one to use with --python"
            )
        if "No module named" in last:
            return UnreachableError(
                f"{python} knows no Unisono ({last})",
                "install the same version there, or name another Python with --python",
            )
        return UnreachableError(f"its probe ended with exit code {code}: {last}")


def what_to_do(said: str, host: str) -> str:
    """Return what to do when ssh ends with these words."""
    usual = "make `ssh {host} true` work without questions"
    fix = next((fix for sign, fix in ADVICE.items() if sign in said.lower()), usual)
    return fix.replace("{host}", host)


def probe_command(ssh: Ssh, host: str, python: str) -> tuple[str, ...]:
    """Return the command that asks a host about itself."""
    return ssh.command(host, (python, "-m", "unisono.launch.probe_server"))
