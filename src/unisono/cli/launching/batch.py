"""`unisono launch --slurm` and `--kubernetes`: write what a cluster is to run."""

import sys
from pathlib import Path
from typing import Any

from unisono import atomic
from unisono.cli.launching.options import pairs_of, place_there
from unisono.errors import ConfigError
from unisono.launch.kubernetes import (
    TrainJob,
    check_name,
    check_variables,
    job_name,
    resources_of,
    volumes_of,
)
from unisono.launch.plan import LaunchedTraining
from unisono.launch.slurm import SlurmJob, sbatch_options, submit


def launch_on_slurm(
    training: LaunchedTraining,
    *,
    dry_run: bool,
    nodes: int,
    time_limit: str,
    partition: str,
    sbatch: tuple[str, ...],
    directory: str,
    python: str,
    env: tuple[str, ...],
    output: Path | None,
    **_: Any,
) -> int:
    """Write the script of the job and submit it."""
    job = SlurmJob(
        arguments=training.arguments,
        python=python or sys.executable,
        directory=place_there(directory),
        run=Path(training.settings.run),
        nodes=nodes,
        workers=training.workers,
        time_limit=time_limit,
        partition=partition,
        further=sbatch_options(sbatch),
        variables=pairs_of(env, where="--env"),
    )
    path = output or job.script_file
    if not time_limit and "time" not in job.further:
        _note(
            "without --time, Slurm ends the job at the partition's own limit; if that has "
            "none, nobody asks the run to save before it is cancelled"
        )
    if dry_run:
        print(f"# would write {path}:\n{job.script()}# and submit it: sbatch --parsable {path}")
        return 0
    _write(path, job.script())
    number = submit(path)
    print(number)
    log = job.log.replace("%j", number)
    for line in (
        f"job {number} was submitted: {path}",
        f"  see:    squeue --job {number}",
        f"  follow: tail -F {log}",
        f"  stop:   scancel {number} (saves; the same command continues)",
    ):
        print(line, file=sys.stderr)
    return 0


def launch_on_kubernetes(
    training: LaunchedTraining,
    *,
    dry_run: bool,
    nodes: int,
    name: str,
    image: str,
    volume: tuple[str, ...],
    resource: tuple[str, ...],
    directory: str,
    python: str,
    env: tuple[str, ...],
    output: Path | None,
    **_: Any,
) -> int:
    """Write the manifest, and say how it is given to Kubernetes."""
    if not image:
        raise ConfigError(
            "no container image is named",
            where="--image",
            fix="name one that has Unisono in it",
        )
    variables = pairs_of(env, where="--env")
    check_variables(variables)
    job = TrainJob(
        name=check_name(name or job_name(training.config.stem)),
        image=image,
        arguments=training.arguments,
        nodes=nodes,
        workers=training.workers,
        python=python or "python",
        directory=directory,
        variables=variables,
        volumes=volumes_of(volume),
        resources=resources_of(resource),
    )
    path = output or Path(f"{job.name}.trainjob.json")
    relative = [] if directory else relative_paths(training)
    if relative:
        _note(
            f"{', '.join(relative)} will be looked for in the image's working directory; "
            "--directory names another, such as where a --volume appears"
        )
    if dry_run:
        print(f"would write {path}, for `kubectl apply -f {path}`:", file=sys.stderr)
        print(job.text(), end="")
        return 0
    _write(path, job.text())
    for line in (
        f"{path} was written",
        f"  start:  kubectl apply -f {path}",
        f"  see:    kubectl get trainjob {job.name}",
        f"  follow: kubectl logs -f -l jobset.sigs.k8s.io/jobset-name={job.name} --prefix",
        f"  stop:   kubectl delete trainjob {job.name} (saves)",
    ):
        print(line, file=sys.stderr)
    return 0


def relative_paths(training: LaunchedTraining) -> list[str]:
    """Return the files and directories of a run that have no absolute path."""
    settings = training.settings
    paths = (training.config, settings.corpus.directory, settings.run)
    return [str(path) for path in paths if not Path(path).is_absolute()]


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, text)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}",
            where="--output",
            fix="choose another file",
        ) from error
