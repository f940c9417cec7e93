"""Brings everything that a run needs to several machines at once."""

import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from unisono.errors import ConfigError, UnisonoError
from unisono.launch.bring.client import BringTarget
from unisono.launch.bring.machine import BringMachine
from unisono.launch.bring.package import CodeArchive
from unisono.launch.bring.payload import NAME_DIGITS, RunPayload
from unisono.launch.bring.peers import PeerRoutes
from unisono.launch.bring.replies import MachineState
from unisono.launch.bring.wheelhouse import (
    EnvironmentPlan,
    Platform,
    lock_choices,
    plan_environment,
)
from unisono.launch.places import Place
from unisono.launch.probe_client import UnreachableError

SHOW_SECONDS = 1.0
# Less than that is there before a comparison of ways would be.
WORTH_ASKING_BYTES = 8_000_000
T = TypeVar("T")


@dataclass(frozen=True)
class BringRequest:
    """What to bring where; without `locks`, Unisono's own decide about packages."""

    targets: tuple[BringTarget, ...]
    payload: RunPayload
    code: CodeArchive
    locks: tuple[Path, ...] = ()
    offline: bool = False


@dataclass(frozen=True)
class BringResult:
    """Where the run is on each machine, what was missing there, and how long it took."""

    places: tuple[Place, ...]
    missing: tuple[int, ...]
    built: tuple[bool, ...]
    seconds: float


class BringWatcher:
    """Hears what happens while things are brought; this one says nothing of it."""

    def tell(self, host: str, text: str) -> None:
        """Hear a sentence about a machine."""

    def show(self, machines: Sequence[BringMachine]) -> None:
        """See how far all machines are, about once a second."""


def bring(request: BringRequest, watcher: BringWatcher) -> BringResult:
    """Bring everything to all machines; an error names those that did not get it."""
    began = time.monotonic()
    machines = [BringMachine(target, request.code, watcher.tell) for target in request.targets]
    with ThreadPoolExecutor(len(machines)) as threads:
        try:
            states = _all(threads, machines, BringMachine.connect, watcher)
            _tell_of_others(request, states, watcher)
            environment = environment_for(request, states)

            def finish(machine: BringMachine) -> tuple[Place, int, bool]:
                machine.deliver(trees, routes)
                return _install(machine, request, environment, state_of[machine.host])

            trees = (*request.payload.trees, environment.material)
            lacking = _all(threads, machines, lambda one: one.announce(trees), watcher)
            routes = _routes(request, machines, lacking)
            state_of = {one.host: state for one, state in zip(machines, states, strict=True)}
            done = _all(threads, machines, finish, watcher)
        finally:
            for machine in machines:
                machine.stop()
    places, missing, built = zip(*done, strict=True)
    return BringResult(places, missing, built, time.monotonic() - began)


def _tell_of_others(
    request: BringRequest, states: Sequence[MachineState], watcher: BringWatcher
) -> None:
    for target, state in zip(request.targets, states, strict=True):
        if not state.has and any(name.startswith("code-") for name in state.trees):
            watcher.tell(
                target.host,
                "has another version of Unisono; this one comes beside it, and is used",
            )


def environment_for(
    request: BringRequest, states: Sequence[MachineState], *, fetch: bool = True
) -> EnvironmentPlan:
    """Return the environment that all machines get; offline, `fetch` its packages to here."""
    platforms = {Platform(state.python, state.machine, state.libc) for state in states}
    kinds = {(one.python, one.machine) for one in platforms}
    if len(kinds) > 1:
        found = ", ".join(
            f"{target.host} has Python {state.python} on {state.machine}"
            for target, state in zip(request.targets, states, strict=True)
        )
        raise ConfigError(
            f"the machines differ: {found}",
            where="--hosts",
            fix="choose the same Python on all of them with --python",
        )
    oldest = min(
        platforms, key=lambda one: [int(n) for n in one.libc.split(".") if n.isdigit()]
    )
    gpu = any(state.gpu for state in states)
    choices = lock_choices(request.locks, gpu=gpu)
    return plan_environment(choices, oldest, offline=request.offline, fetch=fetch)


def python_name(code: CodeArchive, environment: EnvironmentPlan) -> str:
    """Return the name of the Python that joins both."""
    both = hashlib.sha256(f"{code.name} {environment.name}".encode()).hexdigest()
    return f"python-{both[:NAME_DIGITS]}"


def _routes(
    request: BringRequest, machines: Sequence[BringMachine], lacking: Sequence[int]
) -> PeerRoutes:
    """Return the ways to all machines: the one that lacks least may serve the others."""
    least = min(range(len(machines)), key=lambda number: lacking[number])
    first = machines[least]
    routes = PeerRoutes(first.host, [one.host for one in machines])
    if sum(lacking) - lacking[least] > WORTH_ASKING_BYTES:
        first.serve(routes, request.targets[least].ssh.address_of(first.host))
    return routes


def _install(
    machine: BringMachine,
    request: BringRequest,
    environment: EnvironmentPlan,
    state: MachineState,
) -> tuple[Place, int, bool]:
    built = machine.build(environment)
    python = machine.join(python_name(request.code, environment), environment)
    machine.progress.doing = "ready"
    code = 0 if state.has else len(request.code.data)
    return Place(python, state.base), machine.progress.needed_bytes + code, built


def _all(
    threads: ThreadPoolExecutor,
    machines: Sequence[BringMachine],
    work: Callable[[BringMachine], T],
    watcher: BringWatcher,
) -> list[T]:
    """Do some work with all machines at once; raise one error for all that failed."""
    futures: dict[str, Future[T]] = {one.host: threads.submit(work, one) for one in machines}
    pending = set(futures.values())
    while pending:
        pending = wait(pending, timeout=SHOW_SECONDS).not_done
        watcher.show(machines)
    failed = {}
    for host, future in futures.items():
        error = future.exception()
        if isinstance(error, UnreachableError | UnisonoError):
            failed[host] = error
            where = getattr(error, "where", "")
            watcher.tell(
                host,
                "\n".join(
                    filter(
                        None,
                        [
                            error.what,
                            where and f"  where: {where}",
                            error.fix and f"  fix:   {error.fix}",
                        ],
                    )
                ),
            )
        elif error is not None:
            raise error
    if failed:
        raise ConfigError(
            f"not everything could be brought to {', '.join(failed)}; nothing was started",
            where="--sync",
            fix="see above; the same command goes on where it stopped",
        )
    return [future.result() for future in futures.values()]
