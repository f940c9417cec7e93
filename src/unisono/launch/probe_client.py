"""The probe of a machine before a launch: its messages, and the client that sends them.

The client runs `unisono.launch.probe_server` over ssh. Messages are JSON, one a line.
"""

import select
import subprocess
import time
from typing import Any, TypeVar

import msgspec

from unisono.launch.error_output import ErrorOutput, exit_code_of
from unisono.launch.slots import MachineGpus
from unisono.launch.ssh import SSH_FAILED, Ssh


class ReadClock(msgspec.Struct, frozen=True, tag=True):
    """Read your clock."""


class ClockReading(msgspec.Struct, frozen=True, tag=True):
    """The time, in seconds since 1970."""

    time: float


class Describe(msgspec.Struct, frozen=True, tag=True):
    """Describe yourself, and what you would train."""

    directory: str
    config: str
    overrides: tuple[str, ...] = ()


class Problem(msgspec.Struct, frozen=True):
    """Something that keeps a machine from training: what, where, and how to fix it."""

    what: str
    where: str = ""
    fix: str = ""


class Facts(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The facts of a machine; those it does not know are empty.

    `address` is the one under which ssh reached it; `settings` are all settings of the run.
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
    gpus: MachineGpus = MachineGpus()
    problems: tuple[Problem, ...] = ()


class Listen(msgspec.Struct, frozen=True, tag=True):
    """Listen on this port, where one reaches you under `addresses`; the token is the secret."""

    port: int
    token: str
    addresses: tuple[str, ...]


class Listening(msgspec.Struct, frozen=True, tag=True):
    """The machine listens."""


class Connect(msgspec.Struct, frozen=True, tag=True):
    """Connect there; the right machine proves that it knows the token, and so do you."""

    address: str
    port: int
    token: str


class Connected(msgspec.Struct, frozen=True, tag=True):
    """A machine answered at this numeric address; `is_right` if it knew the token.

    `source` is the address from which it was asked.
    """

    address: str
    is_right: bool
    source: str = ""


class Failed(Problem, frozen=True, tag=True):
    """The request failed."""


ProbeRequest = ReadClock | Describe | Listen | Connect
ProbeReply = ClockReading | Facts | Listening | Connected | Failed


# Time to connect and to import what the probe needs, perhaps from a network disk.
PROBE_REPLY_SECONDS = 60.0
PROBE_END_SECONDS = 5.0
# Lines that the shell there may print before our program does.
MOST_FOREIGN_LINES = 200
LONGEST_REPLY = 1 << 20
NO_PROGRAM = (126, 127)
# What ssh reports, and what helps.
SSH_ADVICE = {
    "could not resolve": "check the spelling; ssh knows the names in ~/.ssh/config, "
    "/etc/hosts and DNS",
    "connection refused": "the machine is up, but no ssh server listens there: start it, or "
    "set its Port in ~/.ssh/config",
    "timed out": "check that the machine is on, and that no firewall blocks ssh",
    "no route to host": "check that the machine is on, and that its network is up",
    "host key verification failed": "its key is unknown here, or has changed: run `ssh {host} "
    "true` by hand to see and confirm it",
    "permission denied": "it accepts none of your keys: run `ssh-copy-id {host}`, or set User "
    "and IdentityFile in ~/.ssh/config",
}
ReplyT = TypeVar("ReplyT", bound=ProbeReply)


class UnreachableError(Exception):
    """A machine does not answer: why, and how to fix it."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


class ProbeClient:
    """The connection to a machine's probe server, until the end of the `with` block."""

    def __init__(self, ssh: Ssh, host: str, python: str) -> None:
        self._host, self._python = host, python
        self._command = probe_command(ssh, host, python)

    def __enter__(self) -> "ProbeClient":
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._errors = ErrorOutput(self._process.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            # The probe may still listen on the port that the agents need.
            self._process.wait(PROBE_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def ask(self, request: ProbeRequest, reply: type[ReplyT]) -> ReplyT | Failed:
        """Send a request, and wait for its reply."""
        if self._process.stdin is None:
            raise UnreachableError("its probe was never started")
        try:
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        except BrokenPipeError:
            raise self._gone() from None
        for _ in range(MOST_FOREIGN_LINES):
            line = self._line()
            try:
                return msgspec.json.decode(line, type=reply | Failed)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # the shell there prints something at every start
        raise UnreachableError(
            "its shell prints too much before our probe starts", "shorten its shell profile"
        )

    def _line(self) -> bytes:
        deadline, line = time.monotonic() + PROBE_REPLY_SECONDS, b""
        stream = self._process.stdout
        while stream is not None and not line.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            if not select.select([stream], [], [], left)[0]:
                raise UnreachableError(
                    f"it has not answered for {PROBE_REPLY_SECONDS:.0f} s",
                    f"check whether `ssh {self._host} true` is slow, or the disk of its Python",
                )
            data = stream.read(65536)
            if not data:
                raise self._gone()
            line += data
            if len(line) > LONGEST_REPLY:
                raise UnreachableError("its probe answers too much")
        return line

    def _gone(self) -> UnreachableError:
        code, last = exit_code_of(self._process), self._errors.last_line()
        host, python = self._host, self._python
        if code == SSH_FAILED:
            return UnreachableError(f"ssh cannot connect: {last}", ssh_advice(last, host))
        if code in NO_PROGRAM:
            return UnreachableError(
                f"there is no Python at {python} ({last})", "choose another one with --python"
            )
        if "No module named" in last:
            return UnreachableError(
                f"{python} has no Unisono ({last})",
                "install the same version there, or choose another Python with --python",
            )
        return UnreachableError(f"its probe ended with exit code {code}: {last}")


def ssh_advice(message: str, host: str) -> str:
    """Return how to fix what ssh reports in its last message."""
    usual = "make `ssh {host} true` work without any prompt"
    fix = next((fix for sign, fix in SSH_ADVICE.items() if sign in message.lower()), usual)
    return fix.replace("{host}", host)


def probe_command(ssh: Ssh, host: str, python: str) -> tuple[str, ...]:
    """Return the command that starts the probe server on a host."""
    return ssh.command(host, (python, "-m", "unisono.launch.probe_server"))
