"""The parts of the self-test as programs: started here or on hosts, their output read."""

import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from unisono.errors import RunError
from unisono.launch.ssh import Ssh
from unisono.selftest.outcome import KillNotice, SelftestLine, TrainingEnd
from unisono.selftest.trial import CONFIG, PARTS_RUN

PART_SECONDS = 300.0
PART_COMMAND = ("-m", "unisono", "selftest-part")
PASSED_ON = ("hosts", "python", "ssh_config", "address", "port")


@dataclass(frozen=True)
class Machines:
    """Where the self-test runs: its directory, the same on all machines, and its options."""

    directory: Path
    workers: int
    device: str
    where: dict[str, Any]

    @property
    def config(self) -> Path:
        """Return the config of the small run."""
        return self.directory / CONFIG

    @property
    def hosts(self) -> list[str]:
        """Return the machines that ssh reaches; none means this one."""
        return [name.partition(":")[0] for name in self.where["hosts"].split(",") if name]


@dataclass
class PartOutput:
    """What a part printed and how it ended."""

    exit_code: int = 0
    lines: list[SelftestLine] = field(default_factory=list)
    end: TrainingEnd | None = None
    killed: int = -1
    seconds_to_name: float | None = None
    error: str = ""
    fix: str = ""
    several: bool = True


def set_up(machines: Machines) -> None:
    """Make each machine prepare the small run, one after the other."""
    _everywhere(machines, "make")


def remove(machines: Machines) -> None:
    """Make each machine remove what it prepared."""
    _everywhere(machines, "remove")


def _everywhere(machines: Machines, part: str) -> None:
    words = (
        *PART_COMMAND,
        str(machines.config),
        f"--part={part}",
        f"--device={machines.device}",
    )
    python = machines.where["python"] or sys.executable
    settings = machines.where["ssh_config"]
    ssh = Ssh(str(settings) if settings else "")
    commands = [ssh.command(host, (python, *words)) for host in machines.hosts]
    for command in commands or [(sys.executable, *words)]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise RunError(
                f"the self-test cannot be set up: {said[-1]}",
                where=command[-1] if not machines.hosts else ", ".join(machines.hosts),
                fix="make `unisono --version` work there first",
            )


def run_part(machines: Machines, part: str, kill_at: int = 0) -> PartOutput:
    """Run a part on all machines: the tests of the group, or a training in `PARTS_RUN`."""
    group = part == "group"
    words = [
        sys.executable,
        *PART_COMMAND,
        str(machines.config),
        f"--workers={machines.workers}",
    ]
    words += [f"--part={'group' if group else 'train'}", f"--kill-at={kill_at}"]
    words += [] if group else ["--set", f"run={machines.directory / PARTS_RUN}"]
    for name in PASSED_ON:
        value = machines.where.get(name)
        if value and machines.hosts:
            words.append(f"--{name.replace('_', '-')}={value}")
    if machines.hosts:
        words += [f"--directory={machines.directory}"]
        words += [f"--env={one}" for one in machines.where["env"]]
    return _read(words)


def _read(words: list[str]) -> PartOutput:
    output, killed_at = PartOutput(), 0.0
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        deadline = time.monotonic() + PART_SECONDS
        for line in process.stdout or ():
            take_line(line.strip(), output)
            if output.killed >= 0 and not killed_at:
                killed_at = time.monotonic()
            elif killed_at and output.seconds_to_name is None and names(line, output.killed):
                output.seconds_to_name = time.monotonic() - killed_at
            if time.monotonic() > deadline:
                process.kill()
        output.exit_code = process.wait()
    return output


def names(line: str, rank: int) -> bool:
    """Return whether a line says that process `rank` was lost."""
    return re.search(rf"\blost\b.*\b(?:rank|process) {rank}\b", line) is not None


def take_line(line: str, output: PartOutput) -> None:
    """Take a line of the part's output: a result, an error, or talk."""
    said = (line.partition(" | ")[2] or line).strip()
    if said.startswith("error: "):
        output.error = output.error or said.removeprefix("error: ")
    if said.startswith("fix: "):
        output.fix = output.fix or said.removeprefix("fix:").strip()
    if line.startswith("{"):
        with suppress(msgspec.DecodeError):
            _take_result(msgspec.json.decode(line, type=dict[str, msgspec.Raw]), output)


def _take_result(found: dict[str, msgspec.Raw], output: PartOutput) -> None:
    for name, raw in found.items():
        if name == SelftestLine.__name__:
            output.lines.append(msgspec.json.decode(raw, type=SelftestLine))
        elif name == TrainingEnd.__name__:
            output.end = msgspec.json.decode(raw, type=TrainingEnd)
        elif name == KillNotice.__name__:
            output.killed = msgspec.json.decode(raw, type=KillNotice).rank
            output.several = output.killed > 0
