"""What would be brought to machines, and what was: nothing is changed there, or it goes."""

import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from unisono.errors import ConfigError, RunError, UnisonoError
from unisono.launch.bring import removal
from unisono.launch.bring.bring import BringRequest, environment_for, python_name
from unisono.launch.bring.client import (
    LONGEST_BRING_ANSWER,
    START_SECONDS,
    BringClient,
    BringTarget,
)
from unisono.launch.bring.replies import MachineState, Refusal
from unisono.launch.places import Place
from unisono.launch.probe_client import MOST_FOREIGN_LINES, UnreachableError
from unisono.launch.ssh_pipe import SshPipe


@dataclass(frozen=True)
class BringForecast:
    """What one machine would get: each part with its bytes; and whether pip would run.

    `installed_bytes` is what pip would write, as far as that is known here.
    """

    place: Place
    parts: tuple[tuple[str, int], ...]
    installs: bool
    free: int
    installed_bytes: int = 0

    @property
    def has_room(self) -> bool:
        """Return whether what would be brought and installed fits, as far as that is known."""
        needed = sum(size for _, size in self.parts) + self.installed_bytes
        return not needed or needed <= self.free


class RemovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was brought to a machine by directory with its bytes, its runs, and what stays."""

    token: str
    base: str
    trees: dict[str, int] = {}
    runs: list[str] = []
    kept: list[str] = []
    refused: Refusal | None = None


def forecast(request: BringRequest) -> list[BringForecast]:
    """Return what would be brought to each machine."""

    def look(target: BringTarget) -> MachineState:
        with _named(target), BringClient(target, request.code, look=True) as client:
            return client.state

    with ThreadPoolExecutor(len(request.targets)) as threads:
        states = list(threads.map(look, request.targets))
    environment = environment_for(request, states, fetch=False)
    trees = (*request.payload.trees, environment.material)
    found = []
    for state in states:
        code = () if state.has else (("Unisono", len(request.code.data)),)
        further = tuple((one.what, one.bytes) for one in trees if one.name not in state.trees)
        python = Path(state.base) / python_name(request.code, environment) / "bin" / "python"
        installs = environment.name not in state.trees
        place = Place(str(python), state.base)
        installed = environment.installed_bytes if installs else 0
        parts = (*code, *further)
        found.append(BringForecast(place, parts, installs, state.free, installed))
    return found


def remove_from(
    targets: Sequence[BringTarget], *, runs: bool, look: bool
) -> list[RemovalAnswer | UnisonoError]:
    """Remove from all machines what was brought there, or only `look`."""

    def remove(target: BringTarget) -> RemovalAnswer | UnisonoError:
        try:
            with _named(target):
                return _ask_removal(target, runs=runs, look=look)
        except UnisonoError as error:
            return error

    with ThreadPoolExecutor(len(targets)) as threads:
        return list(threads.map(remove, targets))


@contextmanager
def _named(target: BringTarget) -> Iterator[None]:
    """Turn an unreachable machine into an error that names it."""
    try:
        yield
    except UnreachableError as error:
        raise ConfigError(error.what, where=target.host, fix=error.fix) from error


def _ask_removal(target: BringTarget, *, runs: bool, look: bool) -> RemovalAnswer:
    source = Path(removal.__file__).read_text("utf-8")
    command = target.ssh.program(target.host, target.pythons, source)
    token = secrets.token_hex(16)
    wanted = {"token": token, "directory": target.directory, "runs": runs, "look": look}
    with closing(SshPipe(command, target.host, "program")) as pipe:
        pipe.send(msgspec.json.encode(wanted) + b"\n")
        for _ in range(MOST_FOREIGN_LINES):
            line = pipe.line(LONGEST_BRING_ANSWER, 10 * START_SECONDS)
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                answer = msgspec.json.decode(line, type=RemovalAnswer)
                if answer.token == token and answer.refused:
                    refused = answer.refused
                    raise RunError(refused.what, where=refused.where, fix=refused.fix)
                if answer.token == token:
                    return answer
    raise UnreachableError("its shell prints too much before our program starts")
