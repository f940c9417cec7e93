"""Where `unisono launch` trains: `--hosts`, `--slurm` and `--kubernetes`."""

import shlex
import sys
from pathlib import Path
from typing import Any

from unisono import atomic
from unisono.cli.launching.options import parse_variables, remote_directory
from unisono.errors import ConfigError
from unisono.launch.batch_systems import (
    SlurmJob,
    TrainJob,
    check_name,
    check_variables,
    job_name,
    resources_of,
    sbatch_options,
    submit_slurm_job,
    volumes_of,
)
from unisono.launch.plan import LaunchedTraining
from unisono.launch.slots import requested_workers


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
    """Write a Slurm script and submit it."""
    further = sbatch_options(sbatch)
    job = SlurmJob(
        arguments=training.arguments,
        python=python or sys.executable,
        directory=remote_directory(directory),
        run=Path(training.settings.run),
        nodes=nodes,
        workers=requested_workers(training.workers, further),
        time_limit=time_limit,
        partition=partition,
        further=further,
        variables=parse_variables(env, where="--env"),
    )
    path = output or job.script_file
    if not time_limit and "time" not in job.further:
        _talk(
            "note: "
            "without --time, Slurm ends the job at the partition's own limit; if there is "
            "none, nothing asks the run to save before it is cancelled"
        )
    if dry_run:
        print(f"# would write {path}:\n{job.script()}# and submit it: sbatch --parsable {path}")
        return 0
    _write(path, job.script())
    number = submit_slurm_job(path)
    print(number)
    log = shlex.quote(job.log_of(number))
    _talk(
        f"submitted job {number}: {path}\n"
        f"  see:    squeue --job {number}\n"
        f"  follow: tail -F {log}\n"
        f"  stop:   scancel {number} (saves; the same command continues)"
    )
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
    """Write a manifest, and print how to apply it."""
    if not image:
        raise ConfigError(
            "there is no container image", where="--image", fix="pass one that contains Unisono"
        )
    variables = parse_variables(env, where="--env")
    check_variables(variables)
    resources = resources_of(resource)
    job = TrainJob(
        name=check_name(name or job_name(training.config.stem)),
        image=image,
        arguments=training.arguments,
        nodes=nodes,
        workers=requested_workers(training.workers, resources),
        python=python or "python",
        directory=directory,
        variables=variables,
        volumes=volumes_of(volume),
        resources=resources,
    )
    path = output or Path(f"{job.name}.trainjob.json")
    relative = [] if directory else relative_paths(training)
    if relative:
        _talk(
            "note: "
            f"{', '.join(relative)} will be looked up in the image's working directory; choose "
            "another with --directory, such as the path of a --volume"
        )
    secret = path.with_name(f"{job.name}.secret.json")
    files = f"-f {secret} -f {path}"
    if dry_run:
        _talk(f"would write {secret} (a new secret) and {path}, for `kubectl apply {files}`:")
        print(job.text(), end="")
        return 0
    _write(path, job.text())
    _write(secret, job.new_secret_text(), mode=0o600)
    _talk(
        f"wrote {path}, and the secret of the run in {secret}: keep that one to yourself\n"
        f"  start:  kubectl apply {files}\n"
        f"  see:    kubectl get trainjob {job.name}\n"
        f"  follow: kubectl logs -f -l jobset.sigs.k8s.io/jobset-name={job.name} --prefix\n"
        f"  stop:   kubectl delete {files} (saves)"
    )
    return 0


def relative_paths(training: LaunchedTraining) -> list[str]:
    """Return the files and directories of a run whose paths are relative."""
    settings = training.settings
    paths = (training.config, settings.corpus.directory, settings.run)
    return [str(path) for path in paths if not Path(path).is_absolute()]


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(path, text.encode(), mode)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}",
            where="--output",
            fix="choose another file",
        ) from error


def _talk(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
