"""Train by the command line while the system refuses something: run as a program.

It imports torch once and forks for every trial, as `support.crash` does. Each trial is
`unisono train` with everything around it; what came of it is printed as JSON.
"""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

from support.tiny import tiny_settings
from unisono import cli
from unisono.config.load import to_toml
from unisono.train.checkpoints import checkpoint

FOREVER = 100_000
KILO = 1024
NOBODY = 65534


class Trial:
    """One run of `unisono train` in a forked process, with its directory and standard error."""

    def __init__(self, home, name, prepare=lambda: None, steps=FOREVER, every=FOREVER, **where):
        settings = tiny_settings(
            home,
            where.get("run", name),
            train={"max_steps": steps},
            checkpoint={"every_steps": every},
            validation={"every_steps": FOREVER, "bleu": False},
        )
        self.run, self.said = Path(settings.run), home / f"{name}.err"
        config = home / f"{name}.toml"
        config.write_text(to_toml(settings))
        self.pid = os.fork()
        if not self.pid:
            code = 99
            with contextlib.suppress(SystemExit):
                try:
                    os.dup2(os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
                    prepare()
                    sys.argv = ["unisono", "train", str(config)]
                    cli.main()
                except SystemExit as stop:
                    code = int(stop.code or 0)
                    raise
            os._exit(code)

    def wait_for_step(self, least):
        """Return when the run has recorded so many steps."""
        path = self.run / "events" / "rank-0000.jsonl"
        self.wait_until(
            lambda: path.is_file() and path.read_text().count('"kind":"step"') >= least
        )

    def wait_until(self, sign):
        while not sign():
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                sys.exit(f"{self.run.name} ended with {code}: {self.said.read_text()}")
            time.sleep(0.01)

    def outcome(self, run=None):
        """Wait for the end; return code, words, status, and the newest sound checkpoint."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        run = run or self.run
        path = run / "status.json"
        status = json.loads(path.read_text()) if path.is_file() else {}
        sound = checkpoint.newest(run / "checkpoints")[0] if run.is_dir() else ""
        return {
            "code": code,
            "said": self.said.read_text(),
            "state": status.get("state", ""),
            "status_code": status.get("exit_code"),
            "sound": sound,
            "left": [p.name for p in run.rglob(".tmp-*")] if run.is_dir() else [],
        }


def limit(what, amount):
    return lambda: resource.setrlimit(what, (amount, amount))


def file_size(home):
    """`ulimit -f`, too small for a checkpoint."""
    return Trial(home, "file_size", limit(resource.RLIMIT_FSIZE, 20 * KILO), every=3).outcome()


def open_files(home):
    """`ulimit -n`, used up while the run goes on: no file can be opened any more."""
    trial = Trial(home, "open_files", every=20)
    trial.wait_until(lambda: (trial.run / "checkpoints" / "latest").is_file())
    used = len(os.listdir(f"/proc/{trial.pid}/fd"))
    resource.prlimit(trial.pid, resource.RLIMIT_NOFILE, (used // 2, used // 2))
    found = trial.outcome()
    step = int(found["sound"].partition("-")[2])
    again = Trial(home, "again", steps=step + 5, run="open_files").outcome()
    return {**found, "left": again["left"], "again": (again["code"], again["state"])}


def memory(home):
    """`ulimit -v`, used up while the run goes on."""
    trial = Trial(home, "memory", every=20)
    trial.wait_until(lambda: (trial.run / "checkpoints" / "latest").is_file())
    resource.prlimit(trial.pid, resource.RLIMIT_AS, (KILO**2, KILO**2))
    return trial.outcome()


def read_only(home):
    """The directories of a run of an ordinary user lose the right to be written."""
    if os.getuid() == 0:
        (mine := home / "ordinary").mkdir(mode=0o777)
        mine.chmod(0o777)  # whatever the umask says
        run = "ordinary/read_only"
    else:
        run = "read_only"

    def prepare():
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    trial = Trial(home, "read_only", prepare, every=20, run=run)
    trial.wait_until(lambda: (trial.run / "checkpoints" / "latest").is_file())
    for folder in (trial.run, *(p for p in trial.run.rglob("*") if p.is_dir())):
        with contextlib.suppress(FileNotFoundError):  # a checkpoint that is being written
            folder.chmod(0o555)
    return trial.outcome()


def full_disk(home):
    """A small disk of its own, filled by somebody else while the run goes on."""
    disk = home / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(disk)]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        return {"skipped": "mounting a small disk needs root"}
    try:
        trial = Trial(home, "full_disk", every=20, run="disk/full_disk")
        trial.wait_until(lambda: (trial.run / "checkpoints" / "latest").is_file())
        with (disk / "filler").open("wb", buffering=0) as filler:
            trial.wait_until(lambda: fill(filler))
        return trial.outcome()
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(file):
    """Take what is left of the disk; return whether nothing is."""
    try:
        file.write(bytes(KILO**2))
    except OSError:
        return True
    return False


def moved(home):
    """The run directory gets another name while the run goes on."""
    trial = Trial(home, "moved", every=20)
    trial.wait_until(lambda: (trial.run / "checkpoints" / "latest").is_file())
    there = home / "elsewhere"
    trial.run.rename(there)
    found = trial.outcome(there)
    return {**found, "came_back": trial.run.exists()}


def reader_leaves(home):
    """`unisono train 2>&1 | head -1`."""
    reading, writing = os.pipe()

    def prepare():
        os.close(reading)
        os.dup2(writing, 2)

    trial = Trial(home, "reader_leaves", prepare, steps=30)
    os.close(writing)
    first = os.read(reading, 1)
    os.close(reading)
    return {**trial.outcome(), "first": len(first)}


def hang_up_at_start(home):
    """SIGHUP as soon as `status.json` says that the run starts."""
    trial = Trial(home, "hang_up_at_start")
    trial.wait_until((trial.run / "status.json").is_file)
    os.kill(trial.pid, signal.SIGHUP)
    return trial.outcome()


TRIALS = (
    file_size,
    open_files,
    memory,
    read_only,
    full_disk,
    moved,
    reader_leaves,
    hang_up_at_start,
)


def warm_up(home):
    """Train here, so that the trials find every module imported: nobody may read ours."""
    settings = tiny_settings(home, "warm", train={"max_steps": 2})
    (home / "warm.toml").write_text(to_toml(settings))
    sys.argv = ["unisono", "train", str(home / "warm.toml")]
    assert cli._run() == 0
    shutil.rmtree(home / "warm")


def main(home, only=""):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` would have it ignored
    torch.set_num_threads(1)
    # On a busy machine two threads would wait for each other; the trials have one, too.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    warm_up(Path(home))
    for trial in TRIALS:
        if trial.__name__.startswith(only):
            print(json.dumps([trial.__name__, trial(Path(home))]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
