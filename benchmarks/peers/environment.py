"""An environment of its own for each peer: made once, used again when it is complete."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

# Anything looser would fetch gigabytes of CUDA libraries.
CONSTRAINTS = "torch==2.13.0\n"
SHOWN_LINES = 12


class InstallationError(Exception):
    """A peer could not be installed; the message ends with the last lines of pip."""


def make_environment(directory: Path, steps: tuple[tuple[str, ...], ...]) -> Path:
    """Return the Python of an environment in which `pip install` was run with each step."""
    python, done = directory / "bin" / "python", directory / "complete.json"
    wanted = json.dumps(steps)
    if done.is_file() and done.read_text() == wanted:
        return python
    shutil.rmtree(directory, ignore_errors=True)
    log = directory.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    constraints = directory.with_suffix(".constraints")
    constraints.write_text(CONSTRAINTS)
    with log.open("wb") as out:
        _call([sys.executable, "-m", "venv", directory], out, log)
        for step in steps:
            pip = [python, "-m", "pip", "install", "--disable-pip-version-check"]
            _call([*pip, "--progress-bar=off", "-c", constraints, *step], out, log)
    done.write_text(wanted)
    return python


def version_of(python: Path, package: str) -> str:
    """Return the version of an installed package."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


def site_packages(python: Path) -> Path:
    """Return where the packages of an environment are."""
    return next(python.parents[1].glob("lib/python3*/site-packages"))


def last_lines(path: Path, count: int = SHOWN_LINES) -> str:
    """Return the end of a log, indented."""
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    told = [line for line in lines if line.strip() and not line.startswith("WARNING: Location")]
    return "\n".join(f"    {line}" for line in told[-count:])


def _call(command: list[str | Path], out: object, log: Path) -> None:
    done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT)  # type: ignore[call-overload]
    if done.returncode:
        words = " ".join(str(part) for part in command)
        raise InstallationError(
            f"`{words}` ended with {done.returncode}; the whole log is {log}, its end:\n"
            + last_lines(log)
        )
