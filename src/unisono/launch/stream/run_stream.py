"""Fetches the records of all machines of a run while it trains: one thread a machine.

A connection that breaks is made again, and goes on where the files here end. The leading
machine gets the events and samples of the others from here, so that what it finds out about
the run, and reports there, are about all machines.
"""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from unisono.errors import DataError, UnisonoError
from unisono.launch.probe_client import UnreachableError
from unisono.launch.stream.checkpoint_fetch import CheckpointFetch
from unisono.launch.stream.client import RemoteRun, StreamClient
from unisono.launch.stream.messages import (
    AppendRecord,
    AskMark,
    AskOffsets,
    ListRecords,
    Offsets,
    PutMark,
    ReadRecord,
    ReadWhole,
    RecordBytes,
    RecordEntry,
    RecordList,
    Renew,
    YesOrNo,
)
from unisono.launch.stream.record_names import grows, is_relayed, is_whole, node_of
from unisono.launch.stream.record_store import RecordStore
from unisono.launch.stream.server import mark_of
from unisono.small_files import reason

FETCH_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 15.0
MOST_REFUSED = 20
Notify = Callable[[str], None]


@dataclass
class _Machine:
    """What this side knows of one machine."""

    host: str
    node: int
    client: StreamClient | None = None
    identity: str = ""
    broken: str = ""
    settled: bool = False
    refused: set[str] = field(default_factory=set)
    relayed: dict[str, dict[str, int]] = field(default_factory=dict)


class RunStream:
    """Fetches the records of `remote` into the run directory `here`.

    `start` begins, `finish` waits until everything is here. With `create`, the machines make
    their run directory if it is missing.
    """

    def __init__(
        self,
        remote: RemoteRun,
        here: Path,
        notify: Notify,
        *,
        create: bool = False,
        checkpoints: bool = False,
    ) -> None:
        self._remote, self._notify, self._create = remote, notify, create
        self._machines = [
            _Machine(machine.host, node) for node, machine in enumerate(remote.machines)
        ]
        self._store = RecordStore(here)
        self._store.lock()
        self._checkpoints = CheckpointFetch(here) if checkpoints else None
        self._guard, self._introducing = threading.RLock(), threading.Lock()
        self._changed = threading.Condition(self._guard)
        self._finishing, self._closing = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(machine,), daemon=True)
            for machine in self._machines
        ]

    @property
    def here(self) -> Path:
        """Return the run directory on this machine."""
        return self._store.run

    def start(self) -> None:
        """Begin to fetch."""
        for thread in self._threads:
            thread.start()

    def finish(self, seconds: float) -> dict[str, str]:
        """Fetch what is left, for at most `seconds`; return who has more to give, and why."""
        self._finishing.set()
        deadline = time.monotonic() + seconds
        with self._changed:
            while not all(machine.settled for machine in self._machines):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            late = {one.host: one.broken for one in self._machines if not one.settled}
        self._closing.set()
        for machine, thread in zip(self._machines, self._threads, strict=True):
            if machine.settled:
                thread.join(FETCH_SECONDS)
        with self._guard:
            self._store.close()
        return late

    def client_of(self, host: str) -> StreamClient | None:
        """Return the connection to a machine, or None while there is none."""
        with self._guard:
            return next((one.client for one in self._machines if one.host == host), None)

    # One thread a machine.

    def _follow(self, machine: _Machine) -> None:
        pause = FETCH_SECONDS
        while not self._closing.is_set():
            try:
                with StreamClient(self._remote, machine.host, create=self._create) as client:
                    self._connected(machine, client)
                    pause = FETCH_SECONDS
                    while not self._closing.is_set():
                        self._look(machine, client)
            except (UnreachableError, UnisonoError, OSError) as error:
                self._lost(machine, error)
            if self._closing.wait(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _connected(self, machine: _Machine, client: StreamClient) -> None:
        with self._introducing:
            self._tell_copies_apart(machine, client)
            with self._guard:
                machine.client, machine.relayed = client, {}
                machine.identity = client.identity
        with self._guard:
            if machine.broken:
                self._notify(f"{machine.host} is back; fetching what was missed")
            machine.broken = ""

    def _lost(self, machine: _Machine, error: Exception) -> None:
        with self._guard:
            if isinstance(error, UnreachableError | UnisonoError):
                what = error.what
            else:
                what = reason(error)
            machine.client, machine.settled = None, False
            if not machine.broken and not self._closing.is_set():
                self._notify(f"the records of {machine.host} wait: {what}")
            machine.broken = what

    def _look(self, machine: _Machine, client: StreamClient) -> None:
        """Fetch what is new, give the leading machine its part, and wait if that was all."""
        fresh = self._fetch(machine, client) + self._relay(machine, client)
        with self._changed:
            if fresh:
                # Others may have something to relay now.
                for one in self._machines:
                    one.settled = False
            elif self._finishing.is_set():
                machine.settled = True
            self._changed.notify_all()
        if not fresh:
            self._closing.wait(FETCH_SECONDS if not self._finishing.is_set() else 0.1)

    def _fetch(self, machine: _Machine, client: StreamClient) -> int:
        asked = ListRecords(checkpoints=self._checkpoints is not None)
        listed = client.ask(asked, RecordList)
        if not self._is_turn_of(machine, client):
            return 0
        entries = [one for one in listed.entries if self._speaks_for(machine, one.name)]
        fresh = sum(self._fetch_file(machine, client, entry) for entry in entries)
        if self._checkpoints is not None and client.identity == self._store.leader:
            fresh += self._checkpoints.fetch(client, listed.checkpoints)
        return fresh

    def _fetch_file(self, machine: _Machine, client: StreamClient, entry: RecordEntry) -> int:
        name, source = entry.name, client.identity
        try:
            if grows(name):
                return self._fetch_growing(client, entry)
            with self._guard:
                wanted = self._store.wants_whole(source, name, entry.size, entry.mtime_ns)
            if not is_whole(name) or not wanted:
                return 0
            found, data = client.fetch(ReadWhole(name), RecordBytes)
            with self._guard:
                self._store.replace(source, name, found.mtime_ns, data)
        except DataError as error:
            # One file must not keep the others: it may have gone, or be damaged there.
            if name not in machine.refused and len(machine.refused) < MOST_REFUSED:
                machine.refused.add(name)
                self._notify(f"{machine.host} does not give {name}: {error.what}")
            return 0
        return 1

    def _fetch_growing(self, client: StreamClient, entry: RecordEntry) -> int:
        name, source, fresh = entry.name, client.identity, 0
        with self._guard:
            offset = self._store.offsets(source).get(name, 0)
        if entry.size < offset:
            raise DataError(
                f"it has {entry.size:,} bytes there, and {offset:,} of it were fetched: "
                "another run has begun there; move the directory here away"
            )
        while entry.size > offset and not self._closing.is_set():
            found, data = client.fetch(ReadRecord(name, offset), RecordBytes)
            if found.start < offset:
                raise DataError("it sends what nobody asked for")
            if not data:
                break
            with self._guard:
                self._store.append(source, name, found.start, data)
            offset, fresh = found.start + len(data), fresh + 1
        return fresh

    # Who shares a directory with whom.

    def _speaks_for(self, machine: _Machine, name: str) -> bool:
        """Return whether a machine may tell this: of a node, only that node or its disk."""
        node = node_of(name)
        if node is None or node == machine.node or node >= len(self._machines):
            return True
        return self._machines[node].identity == machine.identity

    def _is_turn_of(self, machine: _Machine, client: StreamClient) -> bool:
        """Return whether to fetch from this machine: of a shared directory, the first gives."""
        with self._guard:
            if client.identity == self._store.identity:
                return False
            sharing = (
                one
                for one in self._machines
                if one.client is not None and one.client.identity == client.identity
            )
            return next(sharing, machine) is machine

    def _tell_copies_apart(self, machine: _Machine, client: StreamClient) -> None:
        """Give the directory of this machine a new identity if it is a copy of another."""
        token = secrets.token_hex(16)
        shared = []
        with self._guard:
            others = [one.client for one in self._machines if one.client is not None]
        if client.identity == self._store.identity:
            client.ask(PutMark(token), YesOrNo)
            shared.append(mark_of(self.here, token).exists())
            mark_of(self.here, token).unlink(missing_ok=True)
        for other in others:
            if other.identity == client.identity and not shared:
                client.ask(PutMark(token), YesOrNo)
                shared.append(other.ask(AskMark(token), YesOrNo).yes)
        if shared and not shared[0]:
            client.ask(Renew(), YesOrNo)
            raise UnreachableError("its run directory was a copy, and is a new one now")

    # What the leading machine gets.

    def _relay(self, machine: _Machine, client: StreamClient) -> int:
        with self._guard:
            leader, own = self._store.leader, self._store.identity
            if client.identity != leader or leader == own or not self._is_first(machine):
                return 0
            sources = [one for one in (*self._store.sources(), own) if one != leader]
            names = {name: size for name, size, _ in self._store.entries() if is_relayed(name)}
        fresh = 0
        try:
            for source in sources:
                if source not in machine.relayed:
                    asked = client.ask(AskOffsets(source), Offsets)
                    machine.relayed[source] = dict(asked.offsets)
                for name in names:
                    fresh += self._relay_file(machine, client, source, name)
        except DataError as error:
            if "relay" not in machine.refused:
                machine.refused.add("relay")
                self._notify(f"{machine.host} does not take others' records: {error.what}")
        return fresh

    def _relay_file(
        self, machine: _Machine, client: StreamClient, source: str, name: str
    ) -> int:
        offset = machine.relayed[source].get(name, 0)
        with self._guard:
            if source == self._store.identity:
                start, data = self._store.read_own(name, offset)
            else:
                start, data = self._store.read_from(source, name, offset)
        if not data:
            return 0
        client.ask(AppendRecord(source, name, start, len(data)), YesOrNo, data)
        machine.relayed[source][name] = start + len(data)
        return 1

    def _is_first(self, machine: _Machine) -> bool:
        identity = machine.client.identity if machine.client is not None else ""
        for one in self._machines:
            if one.client is not None and one.client.identity == identity:
                return one is machine
        return False
