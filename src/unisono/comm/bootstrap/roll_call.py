"""Who is here and who is missing; and whether those who are here can work together."""

import os
import socket
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec
from torch.distributed.distributed_c10d import Store

from unisono.comm.bootstrap.clocks import ClockOffset, answer_clock, ask_clock
from unisono.comm.bootstrap.launcher_env import LauncherEnv
from unisono.comm.bootstrap.network import Network, check_port
from unisono.comm.bootstrap.store import listen, read
from unisono.comm.waiting import Waiting
from unisono.errors import RunError

LOOK_EVERY_SECONDS = 0.02
NAMES_SHOWN = 8
KNOCKS_AT_ONCE = 16
GOODBYE_SECONDS = 5.0


class Seat(msgspec.Struct, frozen=True):
    """A process that has arrived. Others may knock at its `port`, to see whether they can."""

    host: str
    pid: int
    address: str
    machine: bool = False
    port: int = 0


class Findings(msgspec.Struct, frozen=True):
    """What a process found out about the others: whom it cannot reach, and its clock."""

    unreached: dict[int, str] = {}
    clock: ClockOffset = ClockOffset()


class RollCallVerdict(msgspec.Struct, frozen=True):
    """What process 0 made of all findings."""

    trouble: str = ""
    fix: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class RollCall:
    """The roll-call of one process, in the store of the run."""

    store: Store
    place: LauncherEnv
    network: Network
    waiting: Waiting

    def hold(self) -> RollCallVerdict:
        """Return when all are here and fit to work together; say who is missing."""
        if self.place.on_one_machine:
            self._sit(port=0)
            self._wait_for_all()
            return RollCallVerdict()
        with listen(self.network.address, 0) as door:
            self._sit(port=door.getsockname()[1])
            self._wait_for_all()
            verdict = self._judge() if self.place.rank == 0 else self._find_out()
        return verdict

    def _sit(self, port: int) -> None:
        seat = Seat(
            host=socket.gethostname(),
            pid=os.getpid(),
            address=self.network.address,
            machine=self.place.local_rank == 0,
            port=port,
        )
        mine = msgspec.json.encode(seat).decode()
        there = bytes(self.store.compare_set(self._seat(self.place.rank), "", mine))
        if there != mine.encode():
            other = msgspec.json.decode(there, type=Seat)
            raise RunError(
                f"two processes say that they are process {self.place.rank}: pid {other.pid} "
                f"on {other.host} and pid {seat.pid} on {seat.host}",
                where=f"environment variables of {self.place.launcher}",
                fix="give every process a rank of its own; do not start two runs on one port",
            )

    def _wait_for_all(self) -> None:
        missing = list(range(self.place.size))
        while missing:
            missing = [rank for rank in missing if not self.store.check([self._seat(rank)])]
            if missing:
                self._describe(missing)
                # Only process 0 is next to the store; the others need not ask all the time.
                self.waiting.pause(LOOK_EVERY_SECONDS * (1 if self.place.rank == 0 else 10))
        self.waiting.describe("all processes are here, but not all have looked around yet")

    def _describe(self, missing: Sequence[int]) -> None:
        size = self.place.size
        here = [rank for rank in range(size) if rank not in missing]
        whom = f"{len(here)} of {size} processes are here ({self._named(here)})"
        self.waiting.describe(
            f"process {self.place.rank} on {socket.gethostname()} waits on {self.network}: "
            f"{whom}, missing: {_listed(missing)}",
            "check that they were started and what they say",
        )

    def _named(self, ranks: Sequence[int]) -> str:
        hosts: dict[str, list[int]] = {}
        for rank in ranks:
            hosts.setdefault(self._seated(rank).host, []).append(rank)
        shown = [f"{_listed(there)} on {host}" for host, there in hosts.items()]
        return ", ".join(shown[:NAMES_SHOWN]) + (", …" if len(shown) > NAMES_SHOWN else "")

    def _seated(self, rank: int) -> Seat:
        return msgspec.json.decode(read(self.store, self._seat(rank)) or b"", type=Seat)

    def _find_out(self) -> RollCallVerdict:
        rank, store = self.place.rank, self.store
        findings = Findings(self._unreached(), ask_clock(store, rank, self.waiting))
        store.set(f"findings/{rank}", msgspec.json.encode(findings).decode())
        while (text := read(store, "verdict")) is None:
            self.waiting.pause(LOOK_EVERY_SECONDS)
        store.set(f"read/{rank}", "yes")
        return msgspec.json.decode(text, type=RollCallVerdict)

    def _judge(self) -> RollCallVerdict:
        found = {0: Findings(self._unreached())}
        others = range(1, self.place.size)
        answered: Counter[int] = Counter()
        while len(found) < self.place.size:
            answer_clock(self.store, others, answered)
            for rank in others:
                text = None if rank in found else read(self.store, f"findings/{rank}")
                if text is not None:
                    found[rank] = msgspec.json.decode(text, type=Findings)
            self.waiting.pause(LOOK_EVERY_SECONDS)
        verdict = judge({rank: self._seated(rank) for rank in found}, found)
        self.store.set("verdict", msgspec.json.encode(verdict).decode())
        if verdict.trouble:
            self._let_all_read()
        return verdict

    def _let_all_read(self) -> None:
        # The store ends with this process, and nobody could read the verdict in it.
        waiting = Waiting("", min(GOODBYE_SECONDS, self.waiting.seconds_left))
        keys = [f"read/{rank}" for rank in range(1, self.place.size)]
        while waiting.seconds_left and not self.store.check(keys):
            waiting.pause(LOOK_EVERY_SECONDS)

    def _unreached(self) -> dict[int, str]:
        """Return the machines this one cannot reach, by the rank of a process there."""
        if self.place.local_rank:
            return {}
        seats = {rank: self._seated(rank) for rank in range(self.place.size)}
        there = [
            rank for rank, seat in seats.items() if seat.machine and rank != self.place.rank
        ]
        with ThreadPoolExecutor(KNOCKS_AT_ONCE) as pool:
            knocks = pool.map(
                lambda rank: check_port(seats[rank].address, seats[rank].port), there
            )
            return {
                rank: found.trouble
                for rank, found in zip(there, knocks, strict=True)
                if found.trouble
            }

    @staticmethod
    def _seat(rank: int) -> str:
        return f"seat/{rank}"


def judge(seats: dict[int, Seat], found: dict[int, Findings]) -> RollCallVerdict:
    """Return what is to be said about processes that have all arrived."""
    for rank, findings in found.items():
        for other, trouble in findings.unreached.items():
            return RollCallVerdict(
                f"process {rank} on {seats[rank].host} ({seats[rank].address}) cannot reach "
                f"process {other} on {seats[other].host}: {trouble}",
                "processes need all ports between their machines; if the address is not one of "
                "their common network, set `sync.interface`",
            )
    warnings = []
    for rank, findings in found.items():
        clock = findings.clock
        said = f"the clock of {seats[rank].host} {clock.words} that of {seats[0].host}"
        if clock.is_wrong:
            return RollCallVerdict(
                said, "set the clocks of all machines by NTP (chrony, timesyncd)"
            )
        if clock.is_doubtful and said not in warnings:
            warnings.append(said)
    return RollCallVerdict(warnings=tuple(warnings))


def _listed(ranks: Sequence[int]) -> str:
    word = "process " if len(ranks) == 1 else "processes "
    shown = ", ".join(str(rank) for rank in ranks[:NAMES_SHOWN])
    return word + shown + (f" and {len(ranks) - NAMES_SHOWN} more" * (len(ranks) > NAMES_SHOWN))
