"""The wrapper that stands around a command on another machine, without ssh in between."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import msgspec
import psutil
import pytest

from unisono.launch.remote_wrapper import torchrun_variables
from unisono.launch.ssh import SshProcess
from unisono.records.status import Status, was_preempted

pytestmark = pytest.mark.ranks

REMOTE = [sys.executable, "-m", "unisono.launch.remote_wrapper"]
PATIENT = "trap 'sleep 0.3; echo saving; touch saved; exit 5' TERM; echo ready; "
FOREVER = "while :; do sleep 0.05; done"


@contextmanager
def remote(script, *options, **further):
    """A script under the wrapper, which has said that it is ready."""
    pipe = subprocess.PIPE
    command = [*REMOTE, *options, "--", "sh", "-c", script]
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, **further
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@contextmanager
def open_input():
    """Standard input that does not end: its end would be an order to stop."""
    launcher_input, giver = os.pipe()
    try:
        yield launcher_input
    finally:
        os.close(launcher_input)
        os.close(giver)


def living(processes):
    """Return those that have not ended after a while."""
    return psutil.wait_procs(processes)[1]


def below(process):
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 128 + signal.SIGKILL)]
)
def test_the_exit_code_is_that_of_the_command(script, code):
    with open_input() as launcher_input:
        done = subprocess.run(
            [*REMOTE, "--", "sh", "-c", f"echo out; echo err >&2; {script}"],
            stdin=launcher_input,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")


def test_a_command_that_does_not_exist_is_named():
    done = subprocess.run(
        [*REMOTE, "--", "/no/such"], input="", capture_output=True, text=True, check=False
    )
    assert done.returncode == 127
    assert done.stderr == "error: cannot start /no/such: No such file or directory\n"


def test_an_order_to_stop_is_a_signal_to_the_command(tmp_path):
    with remote(PATIENT + FOREVER, cwd=tmp_path) as process:
        out, _ = process.communicate("TERM\n")
        assert (process.returncode, out) == (5, "saving\n")


def test_when_the_launcher_is_gone_the_command_saves_although_nobody_listens(tmp_path):
    # More than a pipe holds: somebody has to take it.
    talkative = PATIENT.replace("echo saving", "head -c 200000 /dev/zero; echo saving")
    with remote(talkative + FOREVER, cwd=tmp_path) as process:
        everything = below(process)
        process.stdout.close()
        process.stderr.close()
        process.stdin.close()
        assert not living([psutil.Process(process.pid), *everything])
    assert (tmp_path / "saved").exists()


def test_an_order_to_kill_reaches_what_hides():
    script = "trap '' TERM; setsid sh -c 'sleep 1000 & sleep 1000' & echo ready; sleep 1000"
    with remote(script) as process:
        while len(everything := below(process)) < 5:
            time.sleep(0.02)
        process.communicate("KILL\n")
        assert process.returncode == 128 + signal.SIGKILL
        assert not living(everything)


def test_what_the_command_leaves_behind_is_killed():
    with remote("setsid sleep 1000 & echo ready; sleep 0.2; exit 3") as process:
        everything = below(process)
        assert process.wait() == 3
        assert not living(everything)


def impatient(seconds, *command):
    """The wrapper as it is, but for its patience."""
    code = (
        "import os, sys; from unisono.launch import remote_wrapper as remote; "
        f"remote.LAUNCHER_SILENT_SECONDS = {seconds}; os._exit(remote.main(sys.argv[1:]))"
    )
    return [sys.executable, "-c", code, "--", *command]


def test_silence_means_that_the_launcher_is_gone():
    command = impatient(1, "sleep", "1000")
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            assert process.wait() == 128 + signal.SIGTERM
        finally:
            process.kill()


def test_a_launcher_that_has_nothing_to_say_says_that_it_is_there(monkeypatch):
    monkeypatch.setattr("unisono.launch.ssh.KEEP_ALIVE_SECONDS", 0.1)
    with SshProcess(impatient(4, "sh", "-c", "sleep 6; exit 9")) as job:
        while job.poll() is None:
            time.sleep(0.05)
        assert job.poll() == 9


def test_torchrun_is_told_its_address_and_threads_unless_the_user_did():
    cores = len(os.sched_getaffinity(0))
    found = torchrun_variables("127.0.0.1", 1, {})
    assert found == {"PET_LOCAL_ADDR": "127.0.0.1", "OMP_NUM_THREADS": str(cores)}
    assert torchrun_variables("127.0.0.1", 10 * cores, {})["OMP_NUM_THREADS"] == "1"
    assert (
        torchrun_variables("127.0.0.1", 1, {"PET_LOCAL_ADDR": "x", "OMP_NUM_THREADS": "9"})
        == {}
    )
    assert "PET_LOCAL_ADDR" not in torchrun_variables("name.invalid", 1, {})


def write_run(path, *sessions):
    """Write what a run says that started and ended at these times, for a reason."""
    path.mkdir(parents=True)
    for began, ended, reason in sessions:
        state = {"signal": "preempted", "": "running"}.get(reason, "done")
        status = Status(state=state, time=ended or began)
        (path / "status.json").write_bytes(msgspec.json.encode(status))
    return path


def test_a_run_was_preempted_if_its_latest_session_was(tmp_path):
    run = write_run(tmp_path / "a", (10, 20, "max_steps"), (30, 40, "signal"))
    assert was_preempted(run, since=25)
    assert not was_preempted(run, since=45), "the next one failed before it began"
    assert not was_preempted(
        write_run(tmp_path / "b", (10, 20, "signal"), (30, 0, "")), since=0
    )
    assert not was_preempted(write_run(tmp_path / "c", (10, 20, "max_steps")), since=0)
    assert not was_preempted(tmp_path / "none", since=0)


def test_the_code_says_so_when_a_run_was_stopped_and_saved(tmp_path):
    now = time.time()
    run = write_run(tmp_path / "a", (now + 100, now + 200, "signal"))
    for where, code in ((run, 75), (tmp_path / "none", 4)):
        command = [*REMOTE, f"--run={where}", "--", "sh", "-c", "exit 4"]
        with open_input() as launcher_input:
            done = subprocess.run(command, stdin=launcher_input, check=False)
        assert done.returncode == code
