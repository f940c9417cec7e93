"""A run as a job of Slurm: a script to be read, and its submission.

How a run that was started elsewhere has ended.
"""

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unisono.errors import ConfigError, RunError
from unisono.exit_codes import PREEMPTED

# Before the time limit: enough to finish a step and to save.
SIGNAL = "TERM@60"
_OPTION = re.compile(r"[a-z][a-z-]*", re.ASCII)
_NAME = re.compile(r"[^\w.-]+", re.ASCII)

SCRIPT = """\
#!/bin/bash
{directives}

# One task is one process of the run. `train` finds the others by Slurm's own variables. When
# one has ended, the others have a minute to save or to notice.
{variables}srun --kill-on-bad-exit=0 --wait=60 {command}
code=$?

# Stopped before the time limit, and saved: back into the queue. It goes on from there.
if [ "$code" -eq {preempted} ]; then
    scontrol requeue "$SLURM_JOB_ID" && sleep 60
fi
exit "$code"
"""


@dataclass(frozen=True)
class SlurmJob:
    """What to ask Slurm for, and what to run. Empty is Slurm's own default."""

    arguments: Sequence[str]
    python: str
    directory: str
    run: Path
    nodes: int
    workers: int
    time_limit: str = ""
    partition: str = ""
    further: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def log(self) -> str:
        """Return the file of its output; %j is its number."""
        return f"{self._place}-%j.log"

    @property
    def script_file(self) -> Path:
        """Return where the script goes if nobody says: beside the run directory."""
        return Path(f"{self._place}.sbatch")

    @property
    def _place(self) -> str:
        return str(Path(self.directory) / self.run)

    def script(self) -> str:
        """Return the script, complete with what is asked for."""
        asked = {
            "job-name": _NAME.sub("-", self.run.name) or "unisono",
            "nodes": str(self.nodes),
            "ntasks-per-node": str(self.workers),
            "time": self.time_limit,
            "partition": self.partition,
            "chdir": self.directory,
            "output": self.log,
            "open-mode": "append",
            # Without a "B:" it goes to the processes of the run, not to this script.
            "signal": SIGNAL,
            "requeue": "",
        }
        given = {name: value for name, value in asked.items() if value or name == "requeue"}
        directives = [
            _directive(name, value) for name, value in {**given, **self.further}.items()
        ]
        variables = [f"export {name}={shlex.quote(v)}\n" for name, v in self.variables.items()]
        return SCRIPT.format(
            directives="\n".join(directives),
            variables="".join(variables),
            command=shlex.join([self.python, "-m", "unisono", *self.arguments]),
            preempted=PREEMPTED,
        )


def sbatch_options(texts: Sequence[str]) -> dict[str, str]:
    """Read options of sbatch: `account=mt`, or `exclusive` alone."""
    options = {}
    for text in texts:
        name, _, value = text.removeprefix("--").partition("=")
        if _OPTION.fullmatch(name) is None or "\n" in value:
            raise ConfigError(
                f'"{text}" is not an option of sbatch',
                where="--sbatch",
                fix="write --sbatch account=mt, or --sbatch exclusive",
            )
        options[name] = value
    return options


def submit(script: Path) -> str:
    """Hand the script to Slurm; return the number of the job."""
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", str(script)], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ConfigError(
            f"the program sbatch cannot be started: {error.strerror}",
            where="--slurm",
            fix=f"submit it from a machine that has Slurm: sbatch {script}",
        ) from error
    if done.returncode:
        raise RunError(
            f"Slurm refuses the job: {' '.join(done.stderr.split())}",
            where=str(script),
            fix="change what is asked for; --dry-run shows the script",
        )
    return done.stdout.strip().partition(";")[0]


def _directive(name: str, value: str) -> str:
    # Slurm reads these lines by itself, with quotes around what contains spaces.
    quoted = f'"{value}"' if re.search(r"\s", value) else value
    return f"#SBATCH --{name}={quoted}" if value else f"#SBATCH --{name}"
