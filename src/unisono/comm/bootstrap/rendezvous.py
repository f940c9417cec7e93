"""torchrun, ending as its workers did.

The machines of a run before its processes exist: who is here, and whose clock is wrong.

The rendezvous of torchrun's agents: who holds its store, where, and who is still missing.

Left alone, an agent's store listens on every network of its machine, and nobody holds it at
all where a host name means loopback. Ours is made here, on one address, and torchrun is only
told where it is.
"""

import logging
import os
import signal
import socket
import threading
import time
import uuid
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousError
from torch.distributed.run import parse_args, parse_min_max_nnodes, run

from unisono.comm.bootstrap.clocks import answer_clock, ask_clock
from unisono.comm.bootstrap.join import die_with_parent
from unisono.comm.bootstrap.launcher_env import NODES
from unisono.comm.bootstrap.network import LOOPBACK, check_port, resolve
from unisono.comm.bootstrap.store import host_store, listen, open_door, read, visit_store
from unisono.comm.waiting import (
    FIRST_WORD_SECONDS,
    LONGEST_SILENCE_SECONDS,
    Tell,
    Waiting,
    say_nothing,
    wait_aloud,
)
from unisono.errors import PeerLostError, RunError
from unisono.exit_codes import RESTARTABLE


@dataclass(frozen=True)
class AgentOutcome:
    """How the workers ended: an exit code, and in words what the first to fail died of.

    A worker that ended by itself has said why; then there are no words.
    """

    exit_code: int = 0
    death: str = ""


def run_agent(arguments: Sequence[str], tell: Tell = say_nothing) -> AgentOutcome:
    """Run torchrun with `arguments` to its end; its own traceback and summary stay unsaid.

    While machines are missing, `tell` is told which and what to check.
    """
    die_with_parent()
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    options = parse_args(list(arguments))
    kept = prepare_rendezvous(options, tell)
    try:
        run(options)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode > 0:
            return AgentOutcome(failure.exitcode)
        name = signal.Signals(-failure.exitcode).name
        return AgentOutcome(
            RESTARTABLE, f"process {rank} (pid {failure.pid}) was killed by {name}"
        )
    except SignalException as caught:
        return AgentOutcome(128 + caught.sigval)
    except RendezvousConnectionError as error:
        raise PeerLostError(
            "the store of torchrun is gone, and with it the machine or the agent that held it",
            fix="see what happened there; the same command continues from the last "
            "checkpoint, if there is one yet",
        ) from error
    except RendezvousError as error:
        raise RunError(
            f"the machines did not come together: {error}",
            where=f"torchrun --nnodes={options.nnodes} at {options.rdzv_endpoint}",
            fix="see whether training runs on all of them, and that their clocks agree",
        ) from error
    finally:
        if kept:
            kept.close()
    return AgentOutcome()


# Whoever tells the time looks often in the beginning: the sooner the answer, the better.
LOOK_EVERY_SECONDS, SELDOM_SECONDS, OFTEN_SECONDS = 0.2, 2.0, 0.05
ANSWER_SECONDS = 30.0
GOODBYE_SECONDS = 3.0


def announce(store: Store) -> int:
    """Say that this machine is here; return its number, from 1 on."""
    number = int(store.add("machines", 1))
    store.set(f"machine/{number}", socket.gethostname())
    return number


def check_clock(store: Store, number: int, tell: Tell) -> None:
    """Raise an error if the clock here is not that of the machine that holds the store."""
    what = "the first machine does not tell the time"
    clock = wait_aloud(lambda w: ask_clock(store, number, w), what, ANSWER_SECONDS, tell)
    said = f"the clock of {socket.gethostname()} {clock.words} that of the first machine"
    if clock.is_wrong:
        raise RunError(said, fix="set the clocks of all machines by NTP (chrony, timesyncd)")
    if clock.is_doubtful:
        tell(f"warning: {said}")


class AgentRollCall:
    """Tells in the background who is missing; whoever `holds` the store also tells the time."""

    def __init__(self, store: Store, least: int, tell: Tell, *, holds: bool) -> None:
        self._store, self._least, self._tell, self._holds = store, least, tell, holds
        self._answered: Counter[int] = Counter()
        self._were_together = False
        self._wait_anew()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; a thread inside the store while Python ends would abort the process."""
        self._over.set()
        self._thread.join(timeout=GOODBYE_SECONDS)

    def _run(self) -> None:
        try:
            while True:
                self._look()
                if self._over.wait(self._until_next_look()):
                    return
        except RuntimeError:
            return  # the store is gone: torchrun says so

    def _until_next_look(self) -> float:
        if self._holds:
            return LOOK_EVERY_SECONDS if self._were_together else OFTEN_SECONDS
        return SELDOM_SECONDS if self._were_together else LOOK_EVERY_SECONDS

    def _look(self) -> None:
        count = int(self._store.add("machines", 0))
        numbers = range(1, count + 1)
        if self._holds:
            answer_clock(self._store, numbers, self._answered)
        if time.monotonic() < self._next_word:
            return
        if _has_workers():
            self._were_together = True
            self._wait_anew()
            return
        if self._were_together:
            self._say(f"{socket.gethostname()} waits for the machines to come together again")
            return
        names = [read(self._store, f"machine/{number}") or b"" for number in numbers]
        hosts = list(dict.fromkeys(name.decode() for name in names if name))
        if len(hosts) < self._least:
            here, missing = ", ".join(hosts), self._least - len(hosts)
            self._say(
                f"{socket.gethostname()} waits: {len(hosts)} of {self._least} machines are "
                f"here ({here}), {missing} missing; check that training was started there, "
                "and what it says"
            )

    def _wait_anew(self) -> None:
        self._pause = FIRST_WORD_SECONDS
        self._next_word = time.monotonic() + self._pause

    def _say(self, words: str) -> None:
        self._tell(words)
        self._pause = min(2 * self._pause, LONGEST_SILENCE_SECONDS)
        self._next_word = time.monotonic() + self._pause


def _has_workers() -> bool:
    """Say whether torchrun has found enough machines and started its workers."""
    return bool(psutil.Process().children())


START_SECONDS = 300
USUAL_PORT = 29400  # torchrun's own
TRY_EVERY_SECONDS = 0.1


@dataclass(frozen=True)
class KeptStore:
    """The store of the agents, and who watches in it for machines that are missing."""

    store: Store
    stopwatch: AgentRollCall | None = None

    def close(self) -> None:
        """End the watch."""
        if self.stopwatch:
            self.stopwatch.close()


def prepare_rendezvous(options: Namespace, tell: Tell) -> KeptStore | None:
    """Make or find the store of the agents, and change torchrun's options to use it.

    Returns what has to be kept until torchrun has ended, and to be closed then.
    """
    # A restarted worker must not find the addresses of its dead peers in the store.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    least, most = parse_min_max_nnodes(options.nnodes)
    if least == most:
        os.environ[NODES] = str(least)
    if _is_alone(options, most):
        return KeptStore(_host_alone(options))
    if options.rdzv_backend != "c10d" or "is_host" not in _conf(options):
        return None  # started by hand in a way of its own
    _set_conf(options, "join_timeout", str(START_SECONDS), anew=False)
    hosts = _conf(options)["is_host"].lower() in ("1", "true", "t", "yes", "y")
    store = _host(options, tell) if hosts else _visit(options, tell)
    roll = PrefixStore("unisono", store)
    number = announce(roll)
    kept = KeptStore(store, AgentRollCall(roll, least, tell, holds=hosts))
    if not hosts:
        try:
            check_clock(roll, number, tell)
        except RunError:
            kept.close()
            raise
    return kept


def _is_alone(options: Namespace, most: int) -> bool:
    if options.standalone:
        return True
    static = options.rdzv_backend == "static" and not options.rdzv_endpoint
    return static and options.master_port is None and most == 1


def _host_alone(options: Namespace) -> Store:
    store = host_store(listen(LOOPBACK.address, 0))
    options.standalone, options.rdzv_backend = False, "c10d"
    options.rdzv_id = str(uuid.uuid4())
    options.local_addr = options.local_addr or LOOPBACK.address
    _point_to(options, LOOPBACK.address, store.port)
    return store


def _host(options: Namespace, tell: Tell) -> Store:
    name, port = _endpoint(options)
    given = resolve(options.local_addr or "") if options.local_addr else []
    seconds = float(_conf(options)["join_timeout"])

    def open_it(waiting: Waiting) -> socket.socket:
        return listen(given[0], port) if given else open_door(name, port, waiting)

    listening = wait_aloud(open_it, f"port {port} of {name} is not open yet", seconds, tell)
    address = str(listening.getsockname()[0])
    options.local_addr = options.local_addr or address
    _point_to(options, address, port)
    return host_store(listening)


def _visit(options: Namespace, tell: Tell) -> Store:
    name, port = _endpoint(options)
    here = socket.gethostname()

    def find(waiting: Waiting) -> Store:
        while not (found := check_port(name, port)).address:
            waiting.describe(
                f"{here} waits for the first machine at {name} port {port}: {found.trouble}",
                found.fix.replace("process 0 was", "training was"),
            )
            waiting.pause(TRY_EVERY_SECONDS)
        options.local_addr = options.local_addr or found.source
        _point_to(options, found.address, port)
        return visit_store(found.address, port, waiting.seconds_left)

    what = f"{here} is looking for the first machine at {name} port {port}"
    return wait_aloud(find, what, float(_conf(options)["join_timeout"]), tell)


def _endpoint(options: Namespace) -> tuple[str, int]:
    name, _, port = str(options.rdzv_endpoint).rpartition(":")
    if not name:
        return port, USUAL_PORT
    return name.strip("[]"), int(port)


def _point_to(options: Namespace, address: str, port: int) -> None:
    host = f"[{address}]" if ":" in address else address
    options.rdzv_endpoint = f"{host}:{port}"
    _set_conf(options, "is_host", "0")


def _conf(options: Namespace) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in (options.rdzv_conf or "").split(",") if pair)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _set_conf(options: Namespace, name: str, value: str, *, anew: bool = True) -> None:
    conf = _conf(options)
    if anew or name not in conf:
        conf[name] = value
    options.rdzv_conf = ",".join(f"{key}={text}" for key, text in conf.items())
