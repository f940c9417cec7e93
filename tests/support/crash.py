"""Train, be killed, continue: run as a program, so that forking is safe and cheap.

The parent imports torch and trains once; every trial is a forked child of it that trains in
earnest and is killed with SIGKILL. What happened is printed as JSON.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

from support.tiny import tiny_settings
from unisono.comm.group import Solo
from unisono.train.checkpoints import checkpoint
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync
from unisono.train.job import run_with

KILLED = -signal.SIGKILL
CALLS = ("open", "write", "fsync", "rename", "mkdir", "unlink", "rmdir", "close")


def settings_for(home, run, steps, every):
    return tiny_settings(
        home,
        run,
        train={"max_steps": steps},
        checkpoint={"every_steps": every},
        validation={"every_steps": steps, "bleu": False},
    )


def train(settings):
    for _ in run_with(Solo(), settings):
        pass


def in_child(action, *arguments):
    """Run `action` in a forked child and return its process."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    with contextlib.suppress(BaseException):
        action(*arguments)
        code = 0
    os._exit(code)


def exit_code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def finish(settings):
    """Train to the end in a child that nobody kills."""
    return exit_code(in_child(train, settings)) == 0


def final_bytes(run):
    newest = Path(run) / "checkpoints" / checkpoint.pointed(Path(run) / "checkpoints", "latest")
    files = (checkpoint.MODEL, checkpoint.OPTIMIZER)
    return newest.name, [(newest / name).read_bytes() for name in files]


def kill_at_random(home, kills, per_run, seed):
    """Kill training `kills` times at random moments; return what came of it."""
    rng = random.Random(seed)
    reference = settings_for(home, "reference", 12, 2)
    began = time.monotonic()
    assert finish(reference)
    longest = time.monotonic() - began
    wanted, done, runs, same, during_saves = final_bytes(reference.run), 0, 0, 0, 0
    while done < kills:
        settings = settings_for(home, f"random-{runs}", 12, 2)
        for _ in range(min(per_run, kills - done)):
            pid = in_child(train, settings)
            time.sleep(rng.uniform(0.05, 0.8) * longest)
            os.kill(pid, signal.SIGKILL)
            if exit_code(pid) != KILLED:
                break
            done += 1
            during_saves += _half_saved(settings.run)
        runs += 1
        same += finish(settings) and final_bytes(settings.run) == wanted
        shutil.rmtree(settings.run)
    return {"kills": done, "runs": runs, "identical": same, "during_saves": during_saves}


def _half_saved(run):
    return any(Path(run, "checkpoints").glob(".tmp-*"))


class Countdown:
    """Kills this process at I/O call `number` of save `save`."""

    def __init__(self, number, save):
        self.number, self.save, self.saves, self.calls = number, save, 0, 0

    def before(self, function, first=None):
        """Return `function`, counted; if its turn has come, `first` happens, then death."""

        def call(*arguments, **keywords):
            self.calls += self.saves == self.save
            if self.saves == self.save and self.calls == self.number:
                if first is not None:
                    first(*arguments)
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **keywords)

        return call


def die_at(number, save):
    """Arrange to be killed at I/O call `number` of save `save`."""
    countdown = Countdown(number, save)
    save_file, write = checkpoint.save_file, CheckpointSync._write

    def write_half(tensors, path):
        save_file(tensors, path)
        os.truncate(path, os.path.getsize(path) // 2)

    def counted_write(checkpoints, *arguments):
        countdown.saves += 1
        return write(checkpoints, *arguments)

    # Within one call, too: half of the file is there, or all of it but not on the disk.
    whole = countdown.before(save_file, first=save_file)
    checkpoint.save_file = countdown.before(whole, first=write_half)
    CheckpointSync._write = counted_write
    for name in CALLS:
        setattr(os, name, countdown.before(getattr(os, name)))


def train_until(number, save, settings):
    die_at(number, save)
    train(settings)


def kill_at_every_call(home, save, stride):
    """Kill at every `stride`-th I/O call of a save until it survives; continue each time."""
    wanted = settings_for(home, f"every-{save}-reference", 4, 1)
    assert finish(wanted)
    final = final_bytes(wanted.run)
    trials, same, kept = 0, 0, 0
    while True:
        number = 1 + trials * stride
        settings = settings_for(home, f"every-{save}-{number}", 4, 1)
        if exit_code(in_child(train_until, number, save, settings)) != KILLED:
            return {"calls": trials, "identical": same, "sound": kept}
        trials += 1
        kept += bool(checkpoint.newest(Path(settings.run) / "checkpoints")[0]) or save == 1
        same += finish(settings) and final_bytes(settings.run) == final
        shutil.rmtree(settings.run)


def main(home, task, *numbers):
    torch.set_num_threads(1)
    home = Path(home)
    train(settings_for(home, f"warm-{task}", 4, 2))
    action = {"random": kill_at_random, "every": kill_at_every_call}[task]
    print(json.dumps(action(home, *map(int, numbers))))


if __name__ == "__main__":
    main(*sys.argv[1:])
