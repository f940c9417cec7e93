"""One machine to which everything is brought, over as many connections as that takes."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from unisono.errors import RunError
from unisono.launch.bring.client import BringClient, BringTarget, described
from unisono.launch.bring.package import CodeArchive
from unisono.launch.bring.payload import BroughtFile, BroughtTree
from unisono.launch.bring.replies import Built, Done, JoinedPython, MachineState
from unisono.launch.bring.wheelhouse import EnvironmentPlan
from unisono.launch.probe_client import UnreachableError

# A machine that gets nothing for so long, however often we connect, is given up.
GIVE_UP_SECONDS = 120.0
AGAIN_SECONDS = 2.0
T = TypeVar("T")


@dataclass
class BringingState:
    """How far a machine is: contents that it lacked at first, and what of them has come."""

    doing: str = "connecting"
    needed: dict[str, int] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)
    moved: int = 0

    @property
    def needed_bytes(self) -> int:
        """Return the bytes of all that was missing."""
        return sum(self.needed.values())

    @property
    def arrived_bytes(self) -> int:
        """Return how many of them are there."""
        return sum(min(self.arrived.get(digest, 0), n) for digest, n in self.needed.items())


class BringMachine:
    """Brings things to one machine, and connects again if the connection breaks."""

    def __init__(
        self, target: BringTarget, code: CodeArchive, tell: Callable[[str, str], None]
    ) -> None:
        self.host, self.progress = target.host, BringingState()
        self._target, self._code, self._tell = target, code, tell
        self._client: BringClient | None = None
        self._stopped = threading.Event()
        self._alive_at = time.monotonic()

    def connect(self) -> MachineState:
        """Connect, and return what the machine says about itself."""
        self._client = BringClient(self._target, self._code).__enter__()
        return self._client.state

    def stop(self) -> None:
        """End the connection, and make no new one."""
        self._stopped.set()
        self._disconnect()

    def deliver(self, trees: Sequence[BroughtTree]) -> int:
        """Bring directories; return how many bytes had been missing."""
        self._persist(lambda client: self._announce(client, trees))
        for tree in trees:
            self._persist(partial(self._bring, tree=tree))
        return self.progress.needed_bytes

    def build(self, environment: EnvironmentPlan) -> bool:
        """Make the environment there; return whether that was necessary."""
        request = {
            "do": "build",
            "tree": environment.name,
            "material": environment.material.name,
            "locks": environment.locks,
            "offline": environment.offline,
        }
        self.progress.doing = "installing packages"
        return self._persist(lambda client: client.ask(request, Built, self._show)).built

    def join(self, name: str, environment: EnvironmentPlan) -> str:
        """Make a Python of Unisono's code and an environment; return its path."""
        request = {"do": "python", "tree": name, "code": self._code.name}
        request |= {"environment": environment.name}
        return self._persist(lambda client: client.ask(request, JoinedPython)).python

    def _show(self, text: str) -> None:
        self.progress.doing = text
        self._alive_at = time.monotonic()

    def _announce(self, client: BringClient, trees: Sequence[BroughtTree]) -> None:
        self.progress.doing = "comparing"
        for tree in trees:
            for digest, size, have in client.missing(tree).missing:
                self.progress.needed.setdefault(digest, size - have)

    def _bring(self, client: BringClient, tree: BroughtTree) -> None:
        lacking = {digest: have for digest, _, have in client.missing(tree).missing}
        if not lacking:
            return
        self.progress.doing = tree.what
        for file in {one.sha256: one for one in tree.files}.values():
            if file.sha256 in lacking:
                self._send(client, file, lacking[file.sha256])
        client.ask({"do": "place", **described(tree)}, Done)

    def _send(self, client: BringClient, file: BroughtFile, have: int) -> None:
        if have == file.size and file.size:
            return
        left = file.size - self.progress.needed.get(file.sha256, file.size)
        for arrived in client.write(file, have):
            self.progress.arrived[file.sha256] = arrived - left
            self._alive_at = time.monotonic()

    def _persist(self, work: Callable[[BringClient], T]) -> T:
        """Do some work, again over a new connection if one breaks."""
        self._alive_at = time.monotonic()
        while True:
            try:
                if self._client is None:
                    self.connect()
                    self._tell(self.host, "is back; it goes on where it stopped")
                if self._client is not None:
                    return work(self._client)
            except UnreachableError as error:
                self._disconnect()
                if self._stopped.is_set():
                    raise RunError("stopped", where=self.host) from None
                if time.monotonic() - self._alive_at > GIVE_UP_SECONDS:
                    raise
                self._tell(self.host, f"the connection broke ({error.what}); connecting again")
                self._stopped.wait(AGAIN_SECONDS)

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.__exit__()
