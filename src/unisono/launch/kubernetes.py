"""A run as a TrainJob of Kubeflow Trainer v2 (API trainer.kubeflow.org/v1alpha1)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unisono.errors import ConfigError

API = "trainer.kubeflow.org/v1alpha1"
RUNTIME = "torch-distributed"
# Names that the runtime `torch-distributed` gives its job and the container in it.
JOB = CONTAINER = "node"
MANAGER = "unisono.launch"
LONGEST_NAME = 63
# Kubeflow sets these itself from nodes and workers; a job that sets them is refused.
RESERVED = {
    f"PET_{name}"
    for name in ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
}
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_AMOUNT = re.compile(r"([\w./-]+)=(\d+(?:\.\d+)?[A-Za-z]*)", re.ASCII)


@dataclass(frozen=True)
class TrainJob:
    """What a TrainJob is to run and needs; `volumes` are claims by the path they appear at."""

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
        """Return the object that Kubernetes is to create."""
        spec: dict[str, Any] = {"runtimeRef": {"name": RUNTIME}, "trainer": self._trainer()}
        if self.volumes:
            spec["runtimePatches"] = [self._patch()]
        return {
            "apiVersion": API,
            "kind": "TrainJob",
            "metadata": {"name": self.name},
            "spec": spec,
        }

    def text(self) -> str:
        """Return the manifest as JSON, which kubectl takes as well as anything."""
        return json.dumps(self.manifest(), indent=2) + "\n"

    def _trainer(self) -> dict[str, Any]:
        # torchrun reads the number of nodes and where to meet from PET_… variables.
        agent = [
            self.python,
            "-m",
            "unisono.cli.agent",
            "-m",
            "unisono",
            *self.arguments,
        ]
        change = ["sh", "-c", 'cd "$0" && exec "$@"', self.directory] if self.directory else []
        variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", **self.variables}
        trainer: dict[str, Any] = {
            "image": self.image,
            "command": [_literal(word) for word in (*change, *agent)],
            "numNodes": self.nodes,
            "numProcPerNode": self.workers,
            "env": [
                {"name": name, "value": _literal(value)} for name, value in variables.items()
            ],
        }
        if self.resources:
            trainer["resourcesPerNode"] = {"limits": dict(self.resources)}
        return trainer

    def _patch(self) -> dict[str, Any]:
        # One volume a claim, though it may be mounted at several places.
        names = {claim: f"volume-{i}" for i, claim in enumerate(_once(self.volumes.values()))}
        pod = {
            "volumes": [
                {"name": name, "persistentVolumeClaim": {"claimName": claim}}
                for claim, name in names.items()
            ],
            "containers": [
                {
                    "name": CONTAINER,
                    "volumeMounts": [
                        {"name": names[claim], "mountPath": path}
                        for path, claim in self.volumes.items()
                    ],
                }
            ],
        }
        job = {"name": JOB, "template": {"spec": {"template": {"spec": pod}}}}
        return {
            "manager": MANAGER,
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
        }


def job_name(wanted: str) -> str:
    """Return a name that Kubernetes takes, as close to `wanted` as it can be."""
    plain = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"run-{plain}")[:LONGEST_NAME].strip("-")


def check_name(name: str) -> str:
    """Return `name`, or raise an error if Kubernetes would refuse it."""
    if _LABEL.fullmatch(name) is None or len(name) > LONGEST_NAME:
        raise ConfigError(
            f'"{name}" cannot be the name of a TrainJob',
            where="--name",
            fix=f"use small letters, digits and dashes, at most {LONGEST_NAME}; try "
            f"{job_name(name)}",
        )
    return name


def volumes_of(texts: Sequence[str]) -> dict[str, str]:
    """Read CLAIM:/PATH; return the claims by their paths."""
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
    """Read NAME=AMOUNT, such as nvidia.com/gpu=2 or memory=64Gi."""
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
    taken = sorted(RESERVED & variables.keys())
    if taken:
        raise ConfigError(
            f"{taken[0]} is set by Kubeflow", where="--env", fix="use --nodes and --workers"
        )


def _literal(text: str) -> str:
    # Kubernetes would put the value of a variable for $(NAME).
    return text.replace("$(", "$$(")


def _once(values: Any) -> list[str]:
    return list(dict.fromkeys(values))
