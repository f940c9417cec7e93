"""Jobs for batch systems: a script for Slurm, a TrainJob manifest for Kubernetes.

The manifest is for Kubeflow Trainer v2 (API trainer.kubeflow.org/v1alpha1).
"""

import json
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unisono.errors import ConfigError, RunError
from unisono.exit_codes import PREEMPTED
from unisono.printable import refuse_control
from unisono.secure.secret import SECRET, new_secret

# Before the time limit: enough to finish a step and to save.
SLURM_SIGNAL = "TERM@60"
_OPTION = re.compile(r"[a-z][a-z-]*", re.ASCII)
_NOT_IN_NAME = re.compile(r"[^\w.-]+", re.ASCII)

NEW_SECRET = "import secrets; print(secrets.token_hex(32))"

SLURM_SCRIPT = """\
#!/bin/bash
{directives}

# One task is one process of the run. `train` finds the others by Slurm's own variables. When
# one has ended, the others have a minute to save or to notice. The secret keeps strangers out.
{secret}
{variables}srun --kill-on-bad-exit=0 --wait=60 {command}
code=$?

# Stopped before the time limit, and saved: back into the queue. It continues from there.
if [ "$code" -eq {preempted} ]; then
    scontrol requeue "$SLURM_JOB_ID" && sleep 60
fi
exit "$code"
"""


@dataclass(frozen=True)
class SlurmJob:
    """What to ask Slurm for, and what to run. Empty means Slurm's own default."""

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
        """Return the file for its output as Slurm reads it: %j is the job's number.

        A backslash in it turns off what % means, and stands for itself when it is doubled.
        """
        if "\\" in self._base:
            return self.log_of("").replace("\\", "\\\\")
        return f"{self._base.replace('%', '%%')}-%j.log"

    def log_of(self, number: str) -> str:
        """Return the file for the output of the job with this number."""
        return f"{self._base}.log" if "\\" in self._base else f"{self._base}-{number}.log"

    @property
    def script_file(self) -> Path:
        """Return the default path of the script: beside the run directory."""
        return Path(f"{self._base}.sbatch")

    @property
    def _base(self) -> str:
        return str(Path(self.directory) / self.run)

    def script(self) -> str:
        """Return the complete script."""
        refuse_control(asdict(self), where="the Slurm job")
        asked = {
            "job-name": _NOT_IN_NAME.sub("-", self.run.name) or "unisono",
            "nodes": str(self.nodes),
            "ntasks-per-node": str(self.workers),
            "time": self.time_limit,
            "partition": self.partition,
            "chdir": self.directory,
            "output": self.log,
            "open-mode": "append",
            # Without a "B:", Slurm signals the processes of the run, not this script.
            "signal": SLURM_SIGNAL,
            "requeue": "",
        }
        given = {name: value for name, value in asked.items() if value or name == "requeue"}
        directives = [
            _directive(name, value) for name, value in {**given, **self.further}.items()
        ]
        variables = [f"export {name}={shlex.quote(v)}\n" for name, v in self.variables.items()]
        return SLURM_SCRIPT.format(
            directives="\n".join(directives),
            secret=f'export {SECRET}="$({shlex.join([self.python, "-c", NEW_SECRET])})"',
            variables="".join(variables),
            command=shlex.join([self.python, "-m", "unisono", *self.arguments]),
            preempted=PREEMPTED,
        )


def sbatch_options(texts: Sequence[str]) -> dict[str, str]:
    """Parse options of sbatch: `account=mt`, or `exclusive` alone."""
    options = {}
    for text in texts:
        name, _, value = text.removeprefix("--").partition("=")
        if _OPTION.fullmatch(name) is None:
            raise ConfigError(
                f'"{text}" is not an option of sbatch',
                where="--sbatch",
                fix="write --sbatch account=mt, or --sbatch exclusive",
            )
        options[name] = value
    return options


def submit_slurm_job(script: Path) -> str:
    """Submit the script to Slurm; return the job's number."""
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", str(script)], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ConfigError(
            f"cannot start the program sbatch: {error.strerror}",
            where="--slurm",
            fix=f"submit it from a machine that has Slurm: sbatch {script}",
        ) from error
    if done.returncode:
        raise RunError(
            f"Slurm rejects the job: {' '.join(done.stderr.split())}",
            where=str(script),
            fix="change the request; --dry-run shows the script",
        )
    return done.stdout.strip().partition(";")[0]


def _directive(name: str, value: str) -> str:
    # Slurm parses these lines itself: # begins a comment, and within double quotes a backslash
    # keeps the next character.
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    quoted = f'"{escaped}"' if re.search(r"""[\s"'\\#]""", value) else value
    return f"#SBATCH --{name}={quoted}" if value else f"#SBATCH --{name}"


KUBEFLOW_API = "trainer.kubeflow.org/v1alpha1"
KUBEFLOW_RUNTIME = "torch-distributed"
# The runtime `torch-distributed` gives these names to its job and to the container in it.
_JOB = _CONTAINER = "node"
_MANAGER = "unisono.launch"
_SECRET_KEY = "secret"
LONGEST_NAME = 63
# Kubeflow sets these itself from nodes and workers, and rejects a job that sets them.
KUBEFLOW_VARIABLES = {
    f"PET_{name}"
    for name in ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
}
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_AMOUNT = re.compile(r"([\w./-]+)=(\d+(?:\.\d+)?[A-Za-z]*)", re.ASCII)


@dataclass(frozen=True)
class TrainJob:
    """A TrainJob of Kubeflow Trainer v2; `volumes` are claims by their mount path."""

    name: str
    image: str
    arguments: Sequence[str]
    nodes: int
    workers: int
    python: str = "python"
    directory: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)

    def manifest(self) -> dict[str, Any]:
        """Return the object for Kubernetes to create."""
        spec: dict[str, Any] = {
            "runtimeRef": {"name": KUBEFLOW_RUNTIME},
            "trainer": self._trainer(),
        }
        if self.volumes:
            spec["runtimePatches"] = [self._patch()]
        return {
            "apiVersion": KUBEFLOW_API,
            "kind": "TrainJob",
            "metadata": {"name": self.name},
            "spec": spec,
        }

    def text(self) -> str:
        """Return the manifest as JSON, which kubectl accepts."""
        manifest = self.manifest()
        refuse_control(manifest, where="the TrainJob")
        return json.dumps(manifest, indent=2) + "\n"

    @property
    def secret_name(self) -> str:
        """Return the name of the Secret from which the pods take the secret of the run."""
        return f"{self.name}-secret"

    def new_secret_text(self) -> str:
        """Return the manifest of that Secret, with a new secret."""
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.secret_name},
            "stringData": {_SECRET_KEY: new_secret()},
        }
        return json.dumps(manifest, indent=2) + "\n"

    def _trainer(self) -> dict[str, Any]:
        # torchrun reads the number of nodes and the rendezvous from PET_… variables.
        agent = (self.python, "-m", "unisono.cli.agent", "-m", "unisono", *self.arguments)
        change = ["sh", "-c", 'cd "$0" && exec "$@"', self.directory] if self.directory else []
        variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", **self.variables}
        secret = {"secretKeyRef": {"name": self.secret_name, "key": _SECRET_KEY}}
        trainer: dict[str, Any] = {
            "image": self.image,
            "command": [_literal(word) for word in (*change, *agent)],
            "numNodes": self.nodes,
            "numProcPerNode": self.workers,
            "env": [
                {"name": SECRET, "valueFrom": secret},
                *({"name": name, "value": _literal(v)} for name, v in variables.items()),
            ],
        }
        if self.resources:
            trainer["resourcesPerNode"] = {"limits": dict(self.resources)}
        return trainer

    def _patch(self) -> dict[str, Any]:
        # One volume per claim, though it may be mounted at several paths.
        names = {
            claim: f"volume-{i}" for i, claim in enumerate(dict.fromkeys(self.volumes.values()))
        }
        pod = {
            "volumes": [
                {"name": name, "persistentVolumeClaim": {"claimName": claim}}
                for claim, name in names.items()
            ],
            "containers": [
                {
                    "name": _CONTAINER,
                    "volumeMounts": [
                        {"name": names[claim], "mountPath": path}
                        for path, claim in self.volumes.items()
                    ],
                }
            ],
        }
        job = {"name": _JOB, "template": {"spec": {"template": {"spec": pod}}}}
        return {
            "manager": _MANAGER,
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
        }


def job_name(wanted: str) -> str:
    """Return a name that Kubernetes accepts, as close to `wanted` as possible."""
    plain = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"run-{plain}")[:LONGEST_NAME].strip("-")


def check_name(name: str) -> str:
    """Return `name`, or raise an error if Kubernetes would reject it."""
    if _LABEL.fullmatch(name) is None or len(name) > LONGEST_NAME:
        raise ConfigError(
            f'"{name}" cannot be the name of a TrainJob',
            where="--name",
            fix=f"use lower-case letters, digits and dashes, at most {LONGEST_NAME}; try "
            f"{job_name(name)}",
        )
    return name


def volumes_of(texts: Sequence[str]) -> dict[str, str]:
    """Parse CLAIM:/PATH; return the claims by their paths."""
    volumes = {}
    for text in texts:
        claim, _, path = text.partition(":")
        if _CLAIM.fullmatch(claim) is None or not path.startswith("/") or ":" in path:
            raise ConfigError(
                f'"{text}" is not a volume',
                where="--volume",
                fix="write the name of a persistent volume claim and a path: corpora:/data",
            )
        volumes[path] = claim
    return volumes


def resources_of(texts: Sequence[str]) -> dict[str, str]:
    """Parse NAME=AMOUNT, such as nvidia.com/gpu=2 or memory=64Gi."""
    found = [_AMOUNT.fullmatch(text) for text in texts]
    for text, match in zip(texts, found, strict=True):
        if match is None:
            raise ConfigError(
                f'"{text}" is not an amount of a resource',
                where="--resource",
                fix="write --resource nvidia.com/gpu=2 or --resource memory=64Gi",
            )
    return {match[1]: match[2] for match in found if match}


def check_variables(variables: Mapping[str, str]) -> None:
    """Raise an error if a variable is one that Kubeflow sets itself."""
    taken = sorted(KUBEFLOW_VARIABLES & variables.keys())
    if taken:
        raise ConfigError(
            f"Kubeflow sets {taken[0]} itself", where="--env", fix="use --nodes and --workers"
        )


def _literal(text: str) -> str:
    # Kubernetes would expand $(NAME).
    return text.replace("$(", "$$(")
