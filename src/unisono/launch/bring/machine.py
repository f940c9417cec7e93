"""One machine to which everything is brought, over as many connections as that takes."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from unisono.clock_skew import ClockOffset
from unisono.errors import RunError
from unisono.launch.bring.client import BringClient, BringTarget, described
from unisono.launch.bring.package import CodeArchive
from unisono.launch.bring.payload import BroughtFile, BroughtTree
from unisono.launch.bring.peers import TRIAL_SECONDS, PeerRoutes
from unisono.launch.bring.replies import (
    Arrived,
    Built,
    Done,
    JoinedPython,
    MachineState,
    Room,
    Serving,
    Unused,
)
from unisono.launch.bring.room import check_room
from unisono.launch.bring.wheelhouse import EnvironmentPlan
from unisono.launch.probe_client import UnreachableError
from unisono.units import amount_of_bytes

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
        self,
        target: BringTarget,
        code: CodeArchive,
        tell: Callable[[str, str], None],
        further_bytes: int,
    ) -> None:
        self.host, self.progress = target.host, BringingState()
        self.clock, self._further_bytes = ClockOffset(), further_bytes
        self.unused: dict[str, int] = {}
        self._target, self._code, self._tell = target, code, tell
        self._client: BringClient | None = None
        self._stopped = threading.Event()
        self._alive_at = time.monotonic()
        self._sizes: dict[str, int] = {}

    def connect(self) -> MachineState:
        """Connect, and return what the machine says about itself."""
        further = self._further_bytes
        client = BringClient(self._target, self._code, further_bytes=further).__enter__()
        self._client, self.clock = client, client.clock
        return client.state

    def check_room(
        self, trees: Sequence[BroughtTree], installed: int, make_room: Callable[[], object]
    ) -> None:
        """Raise an error if there is no room for the files and packages that are missing.

        `installed` are the bytes of the packages; `make_room` is called before it is said.
        """
        request = {"do": "room", "trees": [described(tree) for tree in trees]}
        self.progress.doing = "comparing"
        room = self._persist(lambda client: client.ask(request, Room))
        if room.needed + installed > room.free:
            make_room()
            room = self._persist(lambda client: client.ask(request, Room))
        advice = "make room there (--remove-unused removes what earlier launches brought)"
        needed, where = room.needed + installed, self._target.directory
        check_room(needed, room.free, where, advice)

    def stop(self) -> None:
        """End the connection, and make no new one."""
        self._stopped.set()
        self._disconnect()

    def announce(self, trees: Sequence[BroughtTree]) -> int:
        """Compare directories with what is there; return how many bytes are missing."""
        self._persist(lambda client: self._announce(client, trees))
        return self.progress.needed_bytes

    def serve(self, routes: PeerRoutes, address: str) -> None:
        """Let this machine serve others what it has, also under `address`."""
        request = {"do": "serve", "secret": routes.secret}
        found = self._persist(lambda client: client.ask(request, Serving))
        lacking = self.progress.needed.keys()
        has = {one: size for one, size in self._sizes.items() if one not in lacking}
        routes.serve((*found.addresses, address), found.port, has)

    def deliver(self, trees: Sequence[BroughtTree], routes: PeerRoutes) -> int:
        """Bring directories; return how many bytes had been missing."""
        try:
            for tree in trees:
                self._persist(partial(self._bring, tree=tree, routes=routes))
        finally:
            routes.end(self.host)
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

    def find_unused(
        self, run: str, python: Sequence[str], needed: Sequence[str], *, remove: bool
    ) -> None:
        """Note in `unused` which directories nobody needs; perhaps remove them.

        `python` is what `run` always needs there, `needed` what it needs now.
        """
        request: dict[str, Any] = {"do": "unused", "run": run, "remove": remove}
        request |= {"python": python, "needed": needed}
        self.unused |= self._persist(lambda client: client.ask(request, Unused)).trees

    def _show(self, text: str) -> None:
        self.progress.doing = text
        self._alive_at = time.monotonic()

    def _announce(self, client: BringClient, trees: Sequence[BroughtTree]) -> None:
        self.progress.doing = "comparing"
        self._sizes = {one.sha256: one.size for tree in trees for one in tree.files}
        for tree in trees:
            for digest, size, have in client.missing(tree).missing:
                self.progress.needed.setdefault(digest, size - have)

    def _bring(self, client: BringClient, tree: BroughtTree, routes: PeerRoutes) -> None:
        self.progress.doing = tree.what
        files = {one.sha256: one for one in tree.files}
        while True:
            lacking = {digest: have for digest, _, have in client.missing(tree).missing}
            wanted = [one for digest, one in files.items() if digest in lacking]
            wanted.sort(key=lambda one: one.size, reverse=routes.largest_first(self.host))
            # One that was not brought to its end is asked for again: how much of it is there?
            if all(self._get(client, one, lacking[one.sha256], routes) for one in wanted):
                break
        if lacking:
            client.ask({"do": "place", **described(tree)}, Done)

    def _get(
        self, client: BringClient, file: BroughtFile, have: int, routes: PeerRoutes
    ) -> bool:
        """Bring a content that is there up to `have`; return whether it is there now."""
        if routes.is_relayed(self.host) and have < file.size:
            return self._fetch(client, file, routes)
        if have < file.size or not file.size:
            routes.begin(self.host)
            for arrived in client.write(file, have, lambda: routes.is_time(self.host)):
                routes.came(self.host, arrived - have)
                routes.has(self.host, file.sha256, arrived)
                self._note(file, have := arrived)
        if have < file.size:
            self._compare(client, routes)
            return False
        routes.has(self.host, file.sha256, file.size)
        return True

    def _fetch(self, client: BringClient, file: BroughtFile, routes: PeerRoutes) -> bool:
        if not routes.wait_for(file.sha256):
            routes.failed(self.host)
            return False
        try:
            have = self._fetch_for(client, file.sha256, file.size, routes, GIVE_UP_SECONDS)
        except RunError as error:
            routes.failed(self.host)
            self._tell(self.host, f"{error.what}; this comes from here")
            return False
        self._note(file, have)
        return have == file.size

    def _fetch_for(
        self, client: BringClient, digest: str, size: int, routes: PeerRoutes, seconds: float
    ) -> int:
        """Fetch a content from the first machine for some time; return how much is there."""
        request = {"do": "fetch", "sha256": digest, "size": size, "seconds": seconds}
        request |= {"secret": routes.secret, "port": routes.port}
        request |= {"addresses": routes.addresses}

        def arrived(text: str) -> None:
            left = size - self.progress.needed.get(digest, size)
            self.progress.arrived[digest] = int(text) - left
            self._alive_at = time.monotonic()

        return client.ask(request, Arrived, arrived).have

    def _compare(self, client: BringClient, routes: PeerRoutes) -> None:
        """Try the way from the first machine, and choose."""
        state = self.progress
        have = {
            digest: self._sizes[digest] - needed + state.arrived.get(digest, 0)
            for digest, needed in state.needed.items()
            if state.arrived.get(digest, 0) < needed
        }
        digest = routes.trial(have)
        if not digest:
            routes.measure_again(self.host)
            return
        began, size = time.monotonic(), self._sizes[digest]
        try:
            arrived = self._fetch_for(client, digest, size, routes, TRIAL_SECONDS)
            rate = (arrived - have[digest]) / (time.monotonic() - began)
        except RunError as error:
            self._tell(self.host, f"{error.what}; everything comes from here")
            rate = 0.0
        from_here, is_relayed = routes.decide(self.host, rate)
        if is_relayed:
            rates = f"{amount_of_bytes(rate)}/s, from here {amount_of_bytes(from_here)}/s"
            self._tell(self.host, f"fetches the rest from {routes.first}: {rates}")

    def _note(self, file: BroughtFile, have: int) -> None:
        left = file.size - self.progress.needed.get(file.sha256, file.size)
        self.progress.arrived[file.sha256] = have - left
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
