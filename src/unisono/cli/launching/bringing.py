"""`unisono launch --sync`: bring everything to the machines first; `--teardown` removes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from unisono.cli.launching.bring_screen import BringScreen
from unisono.diagnose.wording import count
from unisono.errors import ConfigError, UnisonoError
from unisono.exit_codes import DONE, FAILED
from unisono.launch.bring.bring import BringRequest, bring
from unisono.launch.bring.client import BringTarget
from unisono.launch.bring.look import RemovalAnswer, forecast, remove_from
from unisono.launch.bring.package import this_unisono
from unisono.launch.bring.payload import RunPayload, payload_of
from unisono.launch.places import Place
from unisono.launch.plan import Host, LaunchedTraining
from unisono.launch.ssh import Ssh
from unisono.printable import printable
from unisono.units import amount_of_bytes, duration

USUAL_DIRECTORY = "~/.cache/unisono"
MOST_UNUSED_NAMED = 4
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3")


@dataclass(frozen=True)
class BringOptions:
    """What the user wants to have brought."""

    sync: bool = False
    offline: bool = False
    lock: tuple[Path, ...] = ()
    teardown: bool = False
    with_runs: bool = False
    remove_unused: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "BringOptions":
        """Return what the command line says."""
        chosen = cls(
            **{one.name: options[one.name] for one in fields(cls) if one.name in options}
        )
        needed = {
            "--offline": (chosen.offline, "--sync"),
            "--lock": (chosen.lock, "--sync"),
            "--remove-unused": (chosen.remove_unused, "--sync"),
            "--with-runs": (chosen.with_runs, "--teardown"),
        }
        modes = {"--sync": chosen.sync, "--teardown": chosen.teardown}
        for option, (is_given, other) in needed.items():
            if is_given and not modes[other]:
                raise ConfigError(
                    f"{option} has no effect without {other}", where=option, fix=f"add {other}"
                )
        if chosen.sync and chosen.teardown:
            raise ConfigError(
                "--sync and --teardown exclude each other", where="launch", fix="choose one"
            )
        return chosen


@dataclass(frozen=True)
class BroughtRun:
    """A run that was brought: how it is started there, where, and whether anything was new."""

    training: LaunchedTraining
    places: tuple[Place, ...]
    is_new: bool


def bring_run(
    ssh: Ssh,
    hosts: Sequence[Host],
    training: LaunchedTraining,
    options: BringOptions,
    *,
    directory: str,
    python: str,
) -> BroughtRun:
    """Bring to all hosts what the training needs."""
    request = _request(_targets(ssh, hosts, directory, python), training, options)
    screen = BringScreen([host.name for host in hosts])
    screen.say(f"bringing what the run needs to {count(len(hosts), 'machine')}")
    with screen:
        result = bring(request, screen)
    for host, missing, built in zip(hosts, result.missing, result.built, strict=True):
        what = f"brought {amount_of_bytes(missing)}" if missing else "has everything already"
        screen.tell(host.name, what + (", and installed the packages" if built else ""))
    for host, unused in zip(hosts, result.unused, strict=True):
        if unused:
            screen.tell(host.name, _unused_words(unused, removed=options.remove_unused))
    screen.say(f"everything is there ({duration(result.seconds)})")
    is_new = any(result.missing) or any(result.built)
    return BroughtRun(_there(training, request.payload), result.places, is_new)


def _unused_words(unused: Mapping[str, int], *, removed: bool) -> str:
    names = [printable(name) for name in sorted(unused)]
    shown = ", ".join(names[:MOST_UNUSED_NAMED])
    more = (
        f" and {len(names) - MOST_UNUSED_NAMED} more" if len(names) > MOST_UNUSED_NAMED else ""
    )
    what = f"{amount_of_bytes(sum(unused.values()))} of earlier launches ({shown}{more})"
    if removed:
        return f"removed {what}"
    return f"has {what} that this run does not need; --remove-unused removes them"


def planned_run(
    ssh: Ssh,
    hosts: Sequence[Host],
    training: LaunchedTraining,
    options: BringOptions,
    *,
    directory: str,
    python: str,
) -> BroughtRun:
    """Print what would be brought to all hosts, and change nothing there."""
    request = _request(_targets(ssh, hosts, directory, python), training, options)
    places = []
    for host, found in zip(hosts, forecast(request), strict=True):
        parts = [f"{what} ({amount_of_bytes(size)})" for what, size in found.parts]
        installs = ["install the packages"] if found.installs else []
        todo = [*([f"bring {', '.join(parts)}"] if parts else []), *installs]
        print(
            f"# {host.name}: would {' and '.join(todo) or 'bring nothing'}; "
            f"{amount_of_bytes(found.free)} free at {found.place.directory}"
            f"{'' if found.has_room else ': not enough'}"
        )
        places.append(found.place)
    return BroughtRun(_there(training, request.payload), tuple(places), is_new=False)


def _targets(
    ssh: Ssh, hosts: Sequence[Host], directory: str, python: str
) -> tuple[BringTarget, ...]:
    pythons = (python,) if python else PYTHONS
    place = directory or USUAL_DIRECTORY
    return tuple(BringTarget(ssh, host.name, pythons, place) for host in hosts)


def _request(
    targets: tuple[BringTarget, ...], training: LaunchedTraining, options: BringOptions
) -> BringRequest:
    payload = payload_of(training.config, training.overrides, training.settings)
    return BringRequest(
        targets,
        payload,
        this_unisono(),
        options.lock,
        options.offline,
        options.remove_unused,
    )


def _there(training: LaunchedTraining, payload: RunPayload) -> LaunchedTraining:
    """Return the training as the machines have it."""
    return replace(
        training,
        config=payload.config,
        overrides=payload.overrides,
        settings=payload.settings,
        restarts=replace(training.restarts, run=payload.settings.run),
    )


def tear_down(
    ssh: Ssh,
    hosts: Sequence[Host],
    options: BringOptions,
    *,
    directory: str,
    python: str,
    dry_run: bool,
) -> int:
    """Remove from all hosts what was brought there; return 0 if that was possible."""
    targets = _targets(ssh, hosts, directory, python)
    screen = BringScreen([host.name for host in hosts])
    answers = remove_from(targets, runs=options.with_runs, look=dry_run)
    for host, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, UnisonoError):
            screen.tell(host.name, str(answer))
            continue
        screen.tell(host.name, _removed(answer, options, dry_run=dry_run))
    return FAILED if any(isinstance(one, UnisonoError) for one in answers) else DONE


def _removed(answer: RemovalAnswer, options: BringOptions, *, dry_run: bool) -> str:
    if not answer.trees and not answer.runs:
        return f"nothing was brought to {answer.base}"
    size = amount_of_bytes(sum(answer.trees.values()))
    lines = [f"{'would remove' if dry_run else 'removed'} {size} from {answer.base}"]
    runs = ", ".join(answer.runs)
    if answer.runs and options.with_runs:
        lines.append(f"  with the records of {runs}")
    elif answer.runs:
        lines.append(f"  kept with their records: runs/ {runs} (--with-runs removes them, too)")
    foreign = [name for name in answer.kept if name != "runs"]
    if foreign:
        lines.append(f"  left alone, because something else is in it: {', '.join(foreign)}")
    return "\n".join(lines)
