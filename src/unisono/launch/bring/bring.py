"""Brings everything that a run needs to several machines at once."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from unisono.clock_skew import CLOCK_FIX, compare_clocks
from unisono.errors import ConfigError, UnisonoError
from unisono.launch.bring.client import BringTarget
from unisono.launch.bring.machine import BringMachine
from unisono.launch.bring.package import CodeArchive
from unisono.launch.bring.payload import NAME_DIGITS, BroughtTree, RunPayload
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
    remove_unused: bool = False


@dataclass(frozen=True)
class BringResult:
    """Where the run is on each machine, what was missing there, and how long it took.

    `unused` are directories of earlier calls that nobody needs, with their bytes.
    """

    places: tuple[Place, ...]
    missing: tuple[int, ...]
    built: tuple[bool, ...]
    unused: tuple[dict[str, int], ...]
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
    further = sum(tree.bytes_on_disk for tree in request.payload.trees)
    machines = [
        BringMachine(target, request.code, watcher.tell, further) for target in request.targets
    ]
    with ThreadPoolExecutor(len(machines)) as threads:
        try:
            states = _all(threads, machines, BringMachine.connect, watcher)
            _all(threads, machines, partial(_check_clock, first=machines[0]), watcher)
            _tell_of_others(request, states, watcher)
            plan = BringPlan(request, environment_for(request, states))
            state_of = {one.host: state for one, state in zip(machines, states, strict=True)}
            installed = _packages_to_install(plan, state_of)

            def check_room(machine: BringMachine) -> None:
                _check_room(machine, plan, installed[machine.host])

            def finish(machine: BringMachine) -> tuple[Place, int, bool]:
                machine.deliver(plan.trees, routes)
                return _install(machine, plan, state_of[machine.host])

            _all(threads, machines, check_room, watcher)
            lacking = _all(threads, machines, lambda one: one.announce(plan.trees), watcher)
            routes = _routes(request, machines, lacking)
            done = _all(threads, machines, finish, watcher)
        finally:
            for machine in machines:
                machine.stop()
    places, missing, built = zip(*done, strict=True)
    unused = tuple(machine.unused for machine in machines)
    return BringResult(places, missing, built, unused, time.monotonic() - began)


@dataclass(frozen=True)
class BringPlan:
    """What is brought with which environment, and the names of all that is needed then."""

    request: BringRequest
    environment: EnvironmentPlan

    @property
    def trees(self) -> tuple[BroughtTree, ...]:
        """Return all directories but the code."""
        return (*self.request.payload.trees, self.environment.material)

    @property
    def python(self) -> str:
        """Return the name of the Python that joins code and environment."""
        return python_name(self.request.code, self.environment)

    def find_unused(self, machine: BringMachine, *, remove: bool) -> None:
        """Find, or remove, what earlier launches brought and nobody needs."""
        whole_python = (self.request.code.name, self.environment.name, self.python)
        needed = (*whole_python, *(tree.name for tree in self.trees))
        run = self.request.payload.settings.run
        machine.find_unused(run, whole_python, needed, remove=remove)


def _packages_to_install(plan: BringPlan, states: Mapping[str, MachineState]) -> dict[str, int]:
    """Return by machine the bytes of the packages that it has yet to install."""
    lacks = {host: plan.environment.name not in one.trees for host, one in states.items()}
    size = plan.environment.installed_bytes if any(lacks.values()) else 0
    return {host: size if lack else 0 for host, lack in lacks.items()}


def _check_room(machine: BringMachine, plan: BringPlan, installed: int) -> None:
    def make_room() -> None:
        if plan.request.remove_unused:
            plan.find_unused(machine, remove=True)

    machine.check_room(plan.trees, installed, make_room)


def _check_clock(machine: BringMachine, first: BringMachine) -> None:
    """Raise an error if a clock is off; the checks of each launch would find it later, too."""
    offset = machine.clock.relative_to(first.clock)
    clocks = compare_clocks(offset, machine.host, first.host)
    if clocks.is_doubtful:
        raise ConfigError(clocks.text, where=machine.host, fix=CLOCK_FIX)


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
    machine: BringMachine, plan: BringPlan, state: MachineState
) -> tuple[Place, int, bool]:
    built = machine.build(plan.environment)
    python = machine.join(plan.python, plan.environment)
    plan.find_unused(machine, remove=plan.request.remove_unused)
    machine.progress.doing = "ready"
    code = 0 if state.has else len(plan.request.code.data)
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
