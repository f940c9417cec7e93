"""A terminal that closes, a reader that leaves: a run saves and says so, or goes on unseen."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from unisono.config.load import to_toml
from unisono.train.checkpoints import checkpoint

pytestmark = pytest.mark.ranks

FOREVER = 1_000_000
UNISONO = [sys.executable, "-m", "unisono"]
# The session of a terminal, as a login makes it; `ignored` as by `nohup`.
SESSION = """
import os, signal, sys
os.login_tty(int(sys.argv[1]))
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[2] == "ignored" else signal.SIG_DFL)
os.execv(sys.argv[3], sys.argv[3:])
"""
FAN_OUT = """
import subprocess, sys
from unisono.cli.pages.progress import show_output
from unisono.launch.fan_out import FanOut
from unisono.printable import guard_output
guard_output()
talks = ["sh", "-c", "for n in $(seq 3000); do echo line $n; echo said $n >&2; done; exit 3"]
pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
running = FanOut({0: subprocess.Popen(talks, text=True, **pipes)})
show_output(running, ["node"])
sys.exit(running.exit_code)
"""


class Terminal:
    """A command in a terminal of its own, which `close` takes away."""

    def __init__(self, words, hang_up=""):
        self._screen, inner = os.openpty()
        helper = [sys.executable, "-c", SESSION, str(inner), hang_up, *words]
        self.process = subprocess.Popen(helper, pass_fds=[inner])
        os.close(inner)

    def wait_for(self, text):
        """Return when the terminal shows `text`."""
        shown = b""
        while text not in shown:
            shown += os.read(self._screen, 4096)  # an OSError if the command has ended

    def close(self):
        os.close(self._screen)


def config(corpus_home, tmp_path, steps=FOREVER):
    """Write the settings of a run that shows every update; return their path and the run's."""
    home = link_corpus(corpus_home, tmp_path)
    settings = tiny_settings(
        home,
        train={"max_steps": steps, "show_every_steps": 1},
        checkpoint={"every_steps": FOREVER},
        validation={"every_steps": FOREVER, "bleu": False},
    )
    path = home / "run.toml"
    path.write_text(to_toml(settings))
    return str(path), home / "run"


def status_of(run):
    status = json.loads((run / "status.json").read_text())
    return status["state"], status["exit_code"], status["step"]


def recorded_steps(run):
    with contextlib.suppress(FileNotFoundError):
        return (run / "events" / "rank-0000.jsonl").read_text().count('"kind":"step"')
    return 0


def living(run):
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(run.parent) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


@pytest.mark.parametrize("verb", ["train", "launch"])
def test_a_run_whose_terminal_closes_saves_and_ends(corpus_home, tmp_path, verb):
    path, run = config(corpus_home, tmp_path)
    terminal = Terminal([*UNISONO, verb, path])
    try:
        terminal.wait_for(b"step 3")
        terminal.close()
        assert terminal.process.wait() == 75
        state, code, step = status_of(run)
        assert (state, code) == ("preempted", 75)
        assert checkpoint.newest(run / "checkpoints") == (checkpoint.name_of(step), [])
        while living(run):
            time.sleep(0.05)
    finally:
        for process in living(run):
            process.kill()


@pytest.mark.parametrize("verb", ["train", "launch"])
def test_a_run_that_ignores_the_hang_up_goes_on_without_a_screen(corpus_home, tmp_path, verb):
    """As under `nohup` and in shells that leave their jobs alone: writing fails from now on."""
    path, run = config(corpus_home, tmp_path)
    terminal = Terminal([*UNISONO, verb, path], hang_up="ignored")
    try:
        terminal.wait_for(b"step 3")
        terminal.close()
        after = recorded_steps(run) + 20
        while recorded_steps(run) < after:
            assert terminal.process.poll() is None, status_of(run)
            time.sleep(0.05)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait() == 75
        assert status_of(run)[:2] == ("preempted", 75)
    finally:
        for process in living(run):
            process.kill()


def test_a_launch_whose_reader_leaves_trains_to_the_end(corpus_home, tmp_path):
    path, run = config(corpus_home, tmp_path, steps=30)
    shell = ["sh", "-c", '"$@" 2>&1 | head -n 1', "sh"]
    done = subprocess.run([*shell, *UNISONO, "launch", path], capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 1
    while living(run):
        time.sleep(0.05)
    assert status_of(run) == ("done", 0, 30)


def test_the_output_of_machines_has_lost_its_reader_and_is_taken_all_the_same():
    """Their lines must be read on, or they would wait for ever; and their exit code counts."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen([sys.executable, "-c", FAN_OUT], **pipes) as process:
        assert process.stdout.readline().startswith(b"node | ")
        process.stdout.close()
        assert process.wait() == 3
