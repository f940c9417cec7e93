"""Which processes have arrived, which are missing, and whether all can work together."""

import os
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec
from torch.distributed.distributed_c10d import Store

from unisono.clock_skew import CLOCK_FIX, ClockOffset, compare_clocks
from unisono.comm.bootstrap.launcher_env import LauncherEnv
from unisono.comm.bootstrap.network import Network, check_port
from unisono.comm.bootstrap.seats import DeviceSeat, Seat, refusal_of, warnings_about
from unisono.comm.bootstrap.store import (
    STORE_POLL_SECONDS,
    answer_clock,
    ask_clock,
    listen,
    read_key,
)
from unisono.comm.waiting import Notify, Waiting, no_notice
from unisono.errors import RunError
from unisono.exit_codes import BAD_SETTINGS, RUN_BROKEN
from unisono.secure.channel import HANDSHAKE_SECONDS, StrangerError, dial
from unisono.secure.secret import secret_of
from unisono.secure.server import SecureServer

NAMES_SHOWN = 8
PORT_CHECKS_AT_ONCE = 16
VERDICT_READ_SECONDS = 5.0


class Arrival(msgspec.Struct, frozen=True):
    """A process that has arrived. The others check that they can connect to its `port`."""

    host: str
    pid: int
    address: str
    is_first_of_machine: bool = False
    port: int = 0
    device: DeviceSeat = DeviceSeat()


class RollCallFindings(msgspec.Struct, frozen=True):
    """What one process found: which machines it cannot reach, and how its clock differs."""

    unreached: dict[int, str] = {}
    clock: ClockOffset = ClockOffset()


class RollCallVerdict(msgspec.Struct, frozen=True):
    """What process 0 concludes from all findings."""

    trouble: str = ""
    fix: str = ""
    warnings: tuple[str, ...] = ()
    exit_code: int = RUN_BROKEN


@dataclass(frozen=True)
class RollCall:
    """The roll call of one process, through the store of the run."""

    store: Store
    env: LauncherEnv
    network: Network
    waiting: Waiting
    seat: DeviceSeat = DeviceSeat()
    notify: Notify = no_notice

    def run(self) -> RollCallVerdict:
        """Wait until all processes have arrived; return whether they can work together."""
        if self.env.on_one_machine:
            self._register(port=0)
            self._wait_for_all()
            return self._judge_devices()
        listening = listen(self.network.address, 0)
        # The others check whether they reach us; both ends prove that they know the secret.
        server = SecureServer(listening, self._secret, lambda _: None, self.notify)
        try:
            self._register(port=listening.getsockname()[1])
            self._wait_for_all()
            return self._lead() if self.env.rank == 0 else self._follow()
        finally:
            server.close()

    @property
    def _secret(self) -> bytes:
        return secret_of(os.environ)

    def _register(self, port: int) -> None:
        arrival = Arrival(
            host=socket.gethostname(),
            pid=os.getpid(),
            address=self.network.address,
            is_first_of_machine=self.env.local_rank == 0,
            port=port,
            device=self.seat,
        )
        mine = msgspec.json.encode(arrival).decode()
        stored = bytes(self.store.compare_set(_key(self.env.rank), "", mine))
        if stored != mine.encode():
            other = msgspec.json.decode(stored, type=Arrival)
            raise RunError(
                f"two processes claim to be process {self.env.rank}: pid {other.pid} on "
                f"{other.host} and pid {arrival.pid} on {arrival.host}",
                where=f"environment variables of {self.env.launcher}",
                fix="give every process its own rank; do not start two runs on one port",
            )

    def _wait_for_all(self) -> None:
        missing = list(range(self.env.size))
        while missing:
            missing = [rank for rank in missing if not self.store.check([_key(rank)])]
            if missing:
                self._describe(missing)
                # Only process 0 is next to the store; the others need not poll as often.
                self.waiting.pause(STORE_POLL_SECONDS * (1 if self.env.rank == 0 else 10))
        self.waiting.describe("all processes have arrived, but not all have checked the others")

    def _describe(self, missing: Sequence[int]) -> None:
        size = self.env.size
        here = [rank for rank in range(size) if rank not in missing]
        self.waiting.describe(
            f"process {self.env.rank} on {socket.gethostname()} waits on {self.network}: "
            f"{len(here)} of {size} processes are here ({self._named(here)}), "
            f"missing: {_listed(missing)}",
            "check that they were started and what they report",
        )

    def _named(self, ranks: Sequence[int]) -> str:
        hosts: dict[str, list[int]] = {}
        for rank in ranks:
            hosts.setdefault(self._arrival(rank).host, []).append(rank)
        shown = [f"{_listed(there)} on {host}" for host, there in hosts.items()]
        return ", ".join(shown[:NAMES_SHOWN]) + (", …" if len(shown) > NAMES_SHOWN else "")

    def _arrival(self, rank: int) -> Arrival:
        return msgspec.json.decode(read_key(self.store, _key(rank)) or b"", type=Arrival)

    def _follow(self) -> RollCallVerdict:
        rank, store = self.env.rank, self.store
        findings = RollCallFindings(self._unreached(), ask_clock(store, rank, self.waiting))
        store.set(f"findings/{rank}", msgspec.json.encode(findings).decode())
        while (text := read_key(store, "verdict")) is None:
            self.waiting.pause(STORE_POLL_SECONDS)
        store.set(f"read/{rank}", "yes")
        return msgspec.json.decode(text, type=RollCallVerdict)

    def _lead(self) -> RollCallVerdict:
        found = {0: RollCallFindings(self._unreached())}
        others = range(1, self.env.size)
        answered: Counter[int] = Counter()
        while len(found) < self.env.size:
            answer_clock(self.store, others, answered)
            for rank in others:
                text = None if rank in found else read_key(self.store, f"findings/{rank}")
                if text is not None:
                    found[rank] = msgspec.json.decode(text, type=RollCallFindings)
            self.waiting.pause(STORE_POLL_SECONDS)
        verdict = judge_findings({rank: self._arrival(rank) for rank in found}, found)
        self.store.set("verdict", msgspec.json.encode(verdict).decode())
        if verdict.trouble:
            self._wait_until_read()
        return verdict

    def _judge_devices(self) -> RollCallVerdict:
        """Return what every process of one machine can see for itself."""
        arrivals = {rank: self._arrival(rank) for rank in range(self.env.size)}
        verdict = judge_findings(arrivals, {})
        if verdict.trouble and self.env.rank == 0:
            self._wait_until_read()
        self.store.set(f"read/{self.env.rank}", "yes")
        return verdict

    def _wait_until_read(self) -> None:
        # The store ends with this process, and the verdict in it would be lost.
        waiting = Waiting("", min(VERDICT_READ_SECONDS, self.waiting.seconds_left))
        keys = [f"read/{rank}" for rank in range(1, self.env.size)]
        while waiting.seconds_left and not self.store.check(keys):
            waiting.pause(STORE_POLL_SECONDS)

    def _unreached(self) -> dict[int, str]:
        """Return the machines this one cannot reach, by the rank of their first process."""
        if self.env.local_rank:
            return {}
        arrivals = {rank: self._arrival(rank) for rank in range(self.env.size)}
        others = {
            rank: arrival
            for rank, arrival in arrivals.items()
            if arrival.is_first_of_machine and rank != self.env.rank
        }
        with ThreadPoolExecutor(PORT_CHECKS_AT_ONCE) as pool:
            checks = pool.map(self._trouble_with, others.values())
            return {rank: text for rank, text in zip(others, checks, strict=True) if text}

    def _trouble_with(self, other: Arrival) -> str:
        found = check_port(other.address, other.port)
        if found.trouble:
            return found.trouble
        try:
            dial((found.address, other.port), self._secret, HANDSHAKE_SECONDS).close()
        except (OSError, StrangerError) as error:
            return f"{other.address} port {other.port} answers, but it is {error}"
        return ""


def judge_findings(
    arrivals: Mapping[int, Arrival], found: Mapping[int, RollCallFindings]
) -> RollCallVerdict:
    """Return whether the processes, which have all arrived, can work together."""
    seats = {rank: Seat(one.host, one.device) for rank, one in arrivals.items()}
    trouble, fix = refusal_of(seats)
    if trouble:
        return RollCallVerdict(trouble, fix, exit_code=BAD_SETTINGS)
    for rank, findings in found.items():
        for other, trouble in findings.unreached.items():
            return RollCallVerdict(
                f"process {rank} on {arrivals[rank].host} ({arrivals[rank].address}) cannot "
                f"reach process {other} on {arrivals[other].host}: {trouble}",
                "open all ports between the machines; if the address is not on a network that "
                "they share, set `sync.interface`",
            )
    warnings = list(warnings_about(seats))
    for rank, findings in found.items():
        clocks = compare_clocks(findings.clock, arrivals[rank].host, arrivals[0].host)
        if clocks.is_wrong:
            return RollCallVerdict(clocks.text, CLOCK_FIX)
        if clocks.is_doubtful:
            warnings.append(clocks.text)
    return RollCallVerdict(warnings=tuple(dict.fromkeys(warnings)))


def _key(rank: int) -> str:
    return f"arrival/{rank}"


def _listed(ranks: Sequence[int]) -> str:
    word = "process " if len(ranks) == 1 else "processes "
    shown = ", ".join(str(rank) for rank in ranks[:NAMES_SHOWN])
    return word + shown + (f" and {len(ranks) - NAMES_SHOWN} more" * (len(ranks) > NAMES_SHOWN))
