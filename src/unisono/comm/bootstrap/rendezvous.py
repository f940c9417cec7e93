"""The agents of a run: torchrun, with a store of our own and an exit code that says why.

Left alone, torchrun's store listens on every network of its machine, and no agent hosts it at
all where the host name resolves to loopback. Ours listens on one address, and torchrun is only
told where it is. Before torchrun starts any worker, the agents register in that store, compare
clocks with the machine that hosts it, and report which machines are still missing.
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
from torch._C._distributed_c10d import HashStore
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousError
from torch.distributed.elastic.rendezvous.utils import _matches_machine_hostname
from torch.distributed.run import parse_args, parse_min_max_nnodes, run

from unisono.clock_skew import CLOCK_FIX, compare_clocks
from unisono.comm.bootstrap.join import DEFAULT_START_SECONDS
from unisono.comm.bootstrap.launcher_env import NO_SECRET, NODES, OUR_AGENT
from unisono.comm.bootstrap.network import LOOPBACK_NETWORK, check_port, resolve
from unisono.comm.bootstrap.rendezvous_state import BACKEND, use_store
from unisono.comm.bootstrap.secure_store import CALL_SECONDS
from unisono.comm.bootstrap.store import (
    answer_clock,
    ask_clock,
    host_store,
    listen,
    listen_as,
    read_key,
    try_store,
)
from unisono.comm.waiting import (
    FIRST_NOTICE_SECONDS,
    LONGEST_NOTICE_GAP_SECONDS,
    Notify,
    Waiting,
    no_notice,
    wait_with_progress,
)
from unisono.errors import PeerLostError, RunError
from unisono.exit_codes import RESTARTABLE
from unisono.parent_process import parent_variables
from unisono.secure.secret import ensure_secret, secret_of

TORCHRUN_PORT = 29400  # torchrun's own default
AGENT_POLL_SECONDS = 0.1
CLOCK_ANSWER_SECONDS = 30.0
THREAD_END_SECONDS = 3.0
# How often the roll call looks: the host of the store and the others, before and after the
# workers start. The sooner the host answers, the better clocks can be compared.
_HOST_POLL_SECONDS, _POLL_SECONDS = (0.05, 0.2), (0.2, 2.0)


@dataclass(frozen=True)
class AgentOutcome:
    """How the workers ended: an exit code, and what killed the first to fail.

    A worker that ended by itself has printed why; then `death` is empty.
    """

    exit_code: int = 0
    death: str = ""


def run_agent(arguments: Sequence[str], notify: Notify = no_notice) -> AgentOutcome:
    """Run torchrun with `arguments` to its end, without its own traceback and summary.

    While machines are missing, call `notify` with which ones and what to check.
    """
    os.environ.update(parent_variables())  # for the workers
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    options = parse_args(list(arguments))
    store = prepare_rendezvous(options, notify)
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
            "torchrun's store is gone: the agent that hosted it, or its machine, has ended",
            fix="find out what happened there; the same command continues from the last "
            "checkpoint, if there is one yet",
        ) from error
    except RendezvousError as error:
        raise RunError(
            f"the machines did not find each other: {error}",
            where=f"torchrun --nnodes={options.nnodes} at {options.rdzv_endpoint}",
            fix="check that training runs on all of them, and that their clocks agree",
        ) from error
    finally:
        if store:
            store.close()
    return AgentOutcome()


@dataclass(frozen=True)
class AgentStore:
    """The store of the agents, and the roll call in it if there are several machines."""

    store: Store
    roll_call: "AgentRollCall | None" = None

    def close(self) -> None:
        """End the roll call."""
        if self.roll_call:
            self.roll_call.close()


def prepare_rendezvous(options: Namespace, notify: Notify) -> AgentStore | None:
    """Host or find the store of the agents, and change torchrun's options to use it.

    The caller keeps the result until torchrun has ended, then closes it.
    """
    # A restarted worker must not find the addresses of its dead peers in the store.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    least, most = parse_min_max_nnodes(options.nnodes)
    if least == most:
        os.environ[NODES] = str(least)
    os.environ[OUR_AGENT] = "1"
    if _is_single_machine(options, most):
        return AgentStore(_keep_here(options))
    if options.rdzv_backend != "c10d":
        return None  # the user configures the rendezvous in another way
    _set_conf(options, "join_timeout", f"{DEFAULT_START_SECONDS:.0f}", overwrite=False)
    is_host = _is_host(options)
    if is_host and not secret_of(os.environ):
        notify(NO_SECRET)
    store = _host(options, notify) if is_host else _connect(options, notify)
    _meet_in(store, options)
    registry = PrefixStore("unisono", store)
    number = register_machine(registry)
    agents = AgentStore(store, AgentRollCall(registry, least, notify, is_host=is_host))
    if not is_host:
        try:
            check_clock(registry, number, notify)
        except RunError:
            agents.close()
            raise
    return agents


def register_machine(store: Store) -> int:
    """Register this machine in the store; return its number, from 1 on."""
    number = int(store.add("machines", 1))
    store.set(f"machine/{number}", socket.gethostname())
    return number


def check_clock(store: Store, number: int, notify: Notify) -> None:
    """Raise an error if the clock here differs from that of the machine with the store."""
    what = "the first machine does not answer what time it is"
    offset = wait_with_progress(
        lambda waiting: ask_clock(store, number, waiting), what, CLOCK_ANSWER_SECONDS, notify
    )
    clocks = compare_clocks(offset, socket.gethostname(), "the first machine")
    if clocks.is_wrong:
        raise RunError(clocks.text, fix=CLOCK_FIX)
    if clocks.is_doubtful:
        notify(f"warning: {clocks.text}")


class AgentRollCall:
    """Reports missing machines from a thread; on the store's host it also answers clocks."""

    def __init__(self, store: Store, least: int, notify: Notify, *, is_host: bool) -> None:
        self._store, self._least, self._notify, self._is_host = store, least, notify, is_host
        self._answered: Counter[int] = Counter()
        self._had_workers = False
        self._restart_notices()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread: inside the store while Python shuts down, it would abort us."""
        self._over.set()
        self._thread.join(timeout=THREAD_END_SECONDS)

    def _run(self) -> None:
        poll_seconds = _HOST_POLL_SECONDS if self._is_host else _POLL_SECONDS
        try:
            while True:
                self._look()
                if self._over.wait(poll_seconds[self._had_workers]):
                    return
        except RuntimeError:
            return  # the store is gone: torchrun reports that

    def _look(self) -> None:
        count = int(self._store.add("machines", 0))
        numbers = range(1, count + 1)
        if self._is_host:
            answer_clock(self._store, numbers, self._answered)
        if time.monotonic() < self._next_notice:
            return
        if psutil.Process().children():  # torchrun found enough machines and started workers
            self._had_workers = True
            self._restart_notices()
        elif self._had_workers:
            self._report(f"{socket.gethostname()} waits for the machines to reconnect")
        else:
            self._report_missing(numbers)

    def _report_missing(self, numbers: range) -> None:
        names = [read_key(self._store, f"machine/{number}") or b"" for number in numbers]
        hosts = list(dict.fromkeys(name.decode() for name in names if name))
        if len(hosts) < self._least:
            self._report(
                f"{socket.gethostname()} waits: {len(hosts)} of {self._least} machines are "
                f"here ({', '.join(hosts)}), {self._least - len(hosts)} missing; check that "
                "training was started there, and what it reports"
            )

    def _restart_notices(self) -> None:
        self._gap = FIRST_NOTICE_SECONDS
        self._next_notice = time.monotonic() + self._gap

    def _report(self, text: str) -> None:
        self._notify(text)
        self._gap = min(2 * self._gap, LONGEST_NOTICE_GAP_SECONDS)
        self._next_notice = time.monotonic() + self._gap


def _is_single_machine(options: Namespace, most: int) -> bool:
    if options.standalone:
        return True
    static = options.rdzv_backend == "static" and not options.rdzv_endpoint
    return static and options.master_port is None and most == 1


def _is_host(options: Namespace) -> bool:
    given = _conf(options).get("is_host", "")
    if given:
        return given.lower() in ("1", "true", "t", "yes", "y")
    return bool(_matches_machine_hostname(_endpoint(options)[0]))


def _meet_in(store: Store, options: Namespace) -> None:
    """Let torchrun meet in `store` and keep its state there as JSON: it would unpickle it."""
    use_store(store)
    options.rdzv_backend = BACKEND


def _keep_here(options: Namespace) -> Store:
    """Keep the state of the only agent in this process, where nobody else reaches it."""
    ensure_secret(os.environ)  # the workers inherit it
    options.standalone, options.rdzv_id = False, str(uuid.uuid4())
    options.local_addr = options.local_addr or LOOPBACK_NETWORK.address
    _point_to(options, LOOPBACK_NETWORK.address, 0)
    store = HashStore()
    _meet_in(store, options)
    return store


def _host(options: Namespace, notify: Notify) -> Store:
    name, port = _endpoint(options)
    given = resolve(options.local_addr) if options.local_addr else []
    seconds = float(_conf(options)["join_timeout"])

    def open_socket(waiting: Waiting) -> socket.socket:
        return listen(given[0], port) if given else listen_as(name, port, waiting)

    what = f"port {port} of {name} is not open yet"
    listening = wait_with_progress(open_socket, what, seconds, notify)
    address = str(listening.getsockname()[0])
    options.local_addr = options.local_addr or address
    _point_to(options, address, port)
    return host_store(listening, notify=notify)


def _connect(options: Namespace, notify: Notify) -> Store:
    name, port = _endpoint(options)
    here, patience = (
        socket.gethostname(),
        float(_conf(options).get("read_timeout", CALL_SECONDS)),
    )

    def find(waiting: Waiting) -> Store:
        while True:
            found = check_port(name, port)
            endpoint = found.address, port
            store = try_store(endpoint, waiting, patience) if found.address else None
            if store is not None:
                options.local_addr = options.local_addr or found.source
                _point_to(options, found.address, port)
                return store
            if not found.address:
                waiting.describe(
                    f"{here} waits for the first machine at {name} port {port}: "
                    f"{found.trouble}",
                    found.fix.replace("process 0 was", "training was"),
                )
                waiting.pause(AGENT_POLL_SECONDS)

    what = f"{here} is looking for the first machine at {name} port {port}"
    return wait_with_progress(find, what, float(_conf(options)["join_timeout"]), notify)


def _endpoint(options: Namespace) -> tuple[str, int]:
    name, _, port = str(options.rdzv_endpoint).rpartition(":")
    if not name:
        return port, TORCHRUN_PORT
    return name.strip("[]"), int(port)


def _point_to(options: Namespace, address: str, port: int) -> None:
    host = f"[{address}]" if ":" in address else address
    options.rdzv_endpoint = f"{host}:{port}"
    _set_conf(options, "is_host", "0")


def _conf(options: Namespace) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in (options.rdzv_conf or "").split(",") if pair)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _set_conf(options: Namespace, name: str, value: str, *, overwrite: bool = True) -> None:
    conf = _conf(options)
    if overwrite or name not in conf:
        conf[name] = value
    options.rdzv_conf = ",".join(f"{key}={text}" for key, text in conf.items())
