"""`unisono launch --slurm`: the script, and what a real Slurm makes of it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.tiny import tiny_settings
from unisono.cli import unisono
from unisono.config.load import to_toml
from unisono.records.view import read_run

SOURCE = Path(__file__).parents[2] / "src"
UNISONO = [sys.executable, "-m", "unisono", "launch"]
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}


def write_config(directory, corpus_home, steps):
    path = directory / "my.toml"
    tables = {"train": {"max_steps": steps}, "validation": {"every_steps": 1_000_000}}
    path.write_text(to_toml(tiny_settings(corpus_home, run=directory / "run", **tables)))
    return path


def test_a_dry_run_shows_the_script_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(to_toml(tiny_settings(tmp_path, run="runs/it's")))
    words = ["--nodes", "4", "--workers", "8", "--time", "12:00:00", "--partition", "gpu"]
    further = ["--sbatch", "gres=gpu:8", "--sbatch", "exclusive", "--env", "NCCL_DEBUG=a b"]
    done = CliRunner().invoke(
        unisono, ["launch", "my.toml", "--slurm", *words, *further, "--dry-run"]
    )
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    asked = {line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH")}
    assert {"nodes=4", "ntasks-per-node=8", "time=12:00:00", "partition=gpu"} < asked
    assert {"gres=gpu:8", "exclusive", "signal=TERM@60", "requeue", f"chdir={tmp_path}"} < asked
    assert "export NCCL_DEBUG='a b'" in lines
    command = f"{sys.executable} -m unisono train my.toml"
    assert f"srun --kill-on-bad-exit=0 --wait=60 {command}" in lines
    assert lines[0].startswith("# would write ")
    checked = subprocess.run(["bash", "-n"], input=done.output, text=True, check=False)
    assert checked.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.toml"]


@pytest.mark.parametrize(
    ("words", "noted"),
    [((), True), (("--time", "1:00"), False), (("--sbatch", "time=9"), False)],
)
def test_a_job_without_a_time_limit_is_noted(tmp_path, words, noted):
    config = write_config(tmp_path, tmp_path, steps=1)
    done = CliRunner().invoke(unisono, ["launch", str(config), "--slurm", *words, "--dry-run"])
    assert done.exit_code == 0, done.output
    assert ("note: without --time" in done.stderr) == noted


def submit(cluster, config, *words):
    """Submit a run of two nodes; return the number of its job."""
    command = [*UNISONO, config, "--slurm", "--workers", 1, *words]
    # Slurm hands the environment of the submission on to the job.
    done = cluster.run(*command, cwd=config.parent, env={"PYTHONPATH": str(SOURCE)})
    assert done.returncode == 0, done.stderr
    assert f"submitted job {done.stdout.strip()}" in done.stderr
    return done.stdout.strip()


def facts_of(cluster, job):
    shown = cluster.run("scontrol", "show", "job", "-o", job).stdout
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)


def wait_for(happened, log, seconds=600):
    deadline = time.monotonic() + seconds
    while not (result := happened()):
        said = log.read_text() if log.exists() else "nothing"
        assert time.monotonic() < deadline, f"it does not happen; it said {said}"
        time.sleep(0.2)
    return result


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("name", "log"),
    [("""my runs' "x" #1 100%j""", "run-{job}.log"), ("a\\b\\\\c 5%j", "run.log")],
)
def test_slurm_runs_the_job_on_its_nodes(cluster, corpus_home, tmp_path, name, log):
    # A shell, and Slurm itself, would take these names apart.
    place = tmp_path / name
    place.mkdir()
    config = write_config(place, corpus_home, steps=3)
    job = submit(cluster, config, "--env", 'ODD=it\'s "a" $HOME; true')
    log = place / log.format(job=job)
    wait_for(lambda: facts_of(cluster, job).get("JobState") in ENDED, log)
    facts = facts_of(cluster, job)
    assert facts["JobState"] == "COMPLETED", log.read_text()
    assert facts["NumNodes"] == "2"
    view = read_run(place / "run")
    assert [start.size for start in view.starts] == [2, 2]
    assert [start.local_rank for start in view.starts] == [0, 0]
    assert len(view.steps) == 3
    assert "ended at step 3" in log.read_text()


@pytest.mark.ranks
def test_the_signal_before_the_time_limit_saves_and_puts_the_job_back(
    cluster, corpus_home, tmp_path
):
    config = write_config(tmp_path, corpus_home, steps=1_000_000)
    job = submit(cluster, config, "--output", tmp_path / "my.sbatch")
    log = tmp_path / f"run-{job}.log"
    wait_for(lambda: log.exists() and "saved" in log.read_text(), log)
    # As Slurm does it for --signal=TERM@60: to the processes of the run, not to the script.
    cluster.run("scancel", "--signal=TERM", job)
    wait_for(lambda: facts_of(cluster, job).get("Restarts") == "1", log)
    assert read_run(tmp_path / "run").ends[-1].reason == "signal"
    cluster.run("scancel", job)
