"""`unisono launch --hosts` over real ssh, on machines of a laboratory."""

import json
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest

from support.ssh import SOURCE, SshLab
from support.tiny import tiny_settings, write_text
from unisono.config.load import to_toml
from unisono.prepare.build import prepare_corpus
from unisono.records.view import read_run
from unisono.secure.secret import SECRET

# Signs are waited for without a limit of their own: on a busy machine each ssh takes seconds.
pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able")]

UNISONO = [sys.executable, "-m", "unisono", "launch"]
LATE = """\
import time
true_time = time.time
time.time = lambda: true_time() - 20
"""
STEPS = 3


@pytest.fixture(scope="module")
def home(corpus_home, tmp_path_factory):
    """A directory with a config in it, and what makes some machines other than the rest."""
    home = tmp_path_factory.mktemp("hosts")
    write_config(home / "my.toml", corpus_home, home / "run")
    (home / "torch" / "torch-9.9.9.dist-info").mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 9.9.9\n"
    (home / "torch" / "torch-9.9.9.dist-info" / "METADATA").write_text(metadata)
    (home / "late").mkdir()
    (home / "late" / "sitecustomize.py").write_text(LATE)
    shutil.copytree(SOURCE / "unisono", home / "code" / "unisono")
    with (home / "code" / "unisono" / "units.py").open("a") as file:
        file.write("# changed\n")
    return home


def write_config(path, corpus_home, run, **tables):
    tables = {"validation": {"every_steps": 1_000_000}, **tables}
    tables.setdefault("train", {"max_steps": STEPS})
    path.write_text(to_toml(tiny_settings(corpus_home, run=run, **tables)))


@pytest.fixture(scope="module")
def machines(home):
    """node0 and node1 are alike; the others have another torch, a late clock, other code."""
    paths = {node: home / name for node, name in ((2, "torch"), (3, "late"))}
    further = {node: {"PYTHONPATH": f"{path}:{SOURCE}"} for node, path in paths.items()}
    with SshLab(home, 5, {**further, 4: {"PYTHONPATH": home / "code"}}) as lab:
        yield lab


def command(machines, *words):
    here = ["--ssh-config", machines.config, "--directory", machines.home]
    return [*UNISONO, *map(str, (machines.home / "my.toml", *here, *words))]


def launch(machines, *words):
    """Launch from node0, which is one of the machines."""
    return machines.run(0, command(machines, *words))


def refused(machines, *words):
    """Launch, see that nothing was started, and return what was said."""
    done = launch(machines, *words)
    assert done.returncode == 2, done.stderr
    assert "nothing was started" in done.stderr
    assert not (machines.home / "run").exists()
    return done.stderr


def test_machines_that_are_alike_are_ready_and_a_check_trains_nothing(machines):
    done = launch(machines, "--hosts", "node0,node1", "--check")
    assert done.returncode == 0, done.stderr
    assert "node0 | Unisono " in done.stderr
    assert "node1 | Unisono " in done.stderr
    assert "all are ready; the rendezvous is at 10.88.0.1:29500\n" in done.stderr
    assert "✓ versions and devices: torch" in done.stdout
    assert "✓ all-reduce: " in done.stdout
    assert not (machines.home / "run").exists()


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ("node2", "node2 | it has torch 9.9.9, node0 has 2"),
        ("node3", "node3 | the clock of node3 is 20.0 s behind that of node0"),
        ("node4", "differs from that of node0"),
        ("nosuch", "nosuch | ssh cannot connect: ssh: Could not resolve hostname nosuch"),
    ],
)
def test_a_machine_that_is_not_as_the_others_is_named_with_the_difference(machines, node, says):
    shown = refused(machines, "--hosts", f"node0,{node}")
    assert says in shown
    assert f"error: not ready: {node}; " in shown
    assert "fix:" in shown


def test_another_config_or_corpus_on_one_machine_is_seen(machines, corpus_home, tmp_path):
    for name, pairs in (("train", 250), ("valid", 20), ("test", 20)):
        write_text(tmp_path / "text", name, pairs, seed=9)
    settings = tiny_settings(tmp_path)
    list(prepare_corpus(settings.data, settings.corpus))
    write_config(tmp_path / "my.toml", corpus_home, machines.home / "run", seed=4)
    for there, other, says in (
        (
            machines.home / "my.toml",
            "my.toml",
            "its settings differ: seed is 4, here it is 3\n",
        ),
        (corpus_home / "corpus", "corpus", "its corpus is "),
    ):
        machines.run(1, ["mount", "--bind", str(tmp_path / other), str(there)])
        try:
            shown = refused(machines, "--hosts", "node0,node1")
        finally:
            machines.run(1, ["umount", str(there)])
        assert f"node1 | {says}" in shown
        assert "error: not ready: node1; " in shown


@pytest.mark.long(minutes=1)
def test_what_is_missing_on_a_machine_is_named(machines):
    for words, says in (
        (["--python", "/no/python"], "there is no Python at /no/python"),
        (["--directory", "/no/such"], "there is no directory /no/such"),
        (
            ["--set", "run=/proc/nowhere/run"],
            "the run directory /proc/nowhere/run:",
        ),
    ):
        done = launch(machines, "--hosts", "node0,node1", *words)
        assert done.returncode == 2
        assert says in done.stderr


STRANGER = """
import socket
server = socket.create_server(("", 29777))
print("ready", flush=True)
while True:
    caller, _ = server.accept()
    caller.sendall(b"x" * 100)
    caller.close()
"""


@contextmanager
def stranger(machines, node):
    """Somebody else at port 29777 of a machine."""
    job = machines.start(node, [sys.executable, "-c", STRANGER], stdout=subprocess.PIPE)
    try:
        assert job.stdout.readline() == "ready\n"
        yield
    finally:
        job.kill()


def test_a_port_that_is_taken_is_seen_before(machines):
    with stranger(machines, 0):
        shown = refused(machines, "--hosts", "node0,node1", "--port", 29777)
    assert "node0 | cannot use port 29777: [Errno 98]" in shown


def test_an_address_that_leads_elsewhere_is_seen_before(machines):
    shown = refused(machines, "--hosts", "node0,node1", "--address", "10.88.0.2")
    assert "node1 | it cannot reach node0, which is 10.88.0.2, at port 29500" in shown
    # Debian's usual entry for a machine's own name leads every machine to itself.
    with stranger(machines, 1):
        words = ["--address", "127.0.1.1", "--port", 29777]
        shown = refused(machines, "--hosts", "node0,node1", *words)
    assert "node1 | another machine than node0 answers at 127.0.1.1" in shown


def test_two_machines_train_together_with_as_many_processes_as_were_said(machines):
    done = launch(
        *(machines, "--hosts", "node0:1,node1:2"),
        *("--set", f"run={machines.home / 'together'}"),
    )
    assert done.returncode == 0, done.stderr
    view = read_run(machines.home / "together")
    assert sorted(start.host for start in view.starts) == ["node0", "node1", "node1"]
    assert len(view.steps) == STEPS
    assert "node0 | ended at step 3" in done.stderr
    starts = ("node", "all", "checking", "note: gloo and NCCL answer everybody", "  ")
    assert all(line.startswith(starts) for line in done.stderr.splitlines())
    assert "saddr != { 127.0.0.0/8, 10.88.0.1, 10.88.0.2 } drop" in done.stderr


def test_the_exit_code_is_that_of_the_run(machines):
    run = machines.home / "together"
    done = launch(
        *(machines, "--hosts", "node0:1,node1:1"),
        *("--set", f"run={run}", "--set", "model.width=32"),
    )
    assert done.returncode == 2, done.stderr
    assert "error: this run was started with model.width = 16, now it is 32" in done.stderr


@pytest.mark.long(minutes=1)
def test_check_measures_the_machines_and_its_result_is_bare(machines):
    words = command(machines, "--hosts", "node0,node1", "--json", "--seconds", 1)
    words[words.index("launch")] = "check"
    done = machines.run(0, words)
    assert done.returncode in (0, 1), done.stderr  # 1 is the stop sign
    found = json.loads(done.stdout)
    assert [process["host"] for process in found["measured"]["processes"]] == ["node0", "node1"]
    assert "all are ready; the rendezvous is at" in done.stderr


def start_long(machines, name, *further):
    """Start a run without an end; return it when it has saved for the first time."""
    words = ["--hosts", "node0:1,node1:1", "--set", f"run={machines.home / name}"]
    words = command(machines, *words, "--set", "train.max_steps=1000000", *further)
    job = machines.start(0, words, stderr=subprocess.PIPE)
    for line in job.stderr:
        if " | saved" in line:
            return job
    raise AssertionError("it never saved")


def processes_of(run):
    """Return the processes on any machine that have to do with a run."""
    found = psutil.process_iter(["cmdline"])
    return [p for p in found if any(str(run) in word for word in p.info["cmdline"] or [])]


def test_ctrl_c_saves_on_all_machines_and_the_code_says_so(machines):
    job = start_long(machines, "stopped")
    running = processes_of(machines.home / "stopped")
    assert len(running) > 8
    job.send_signal(signal.SIGINT)
    rest = job.stderr.read()
    assert job.wait() == 75, rest
    assert read_run(machines.home / "stopped").ends[-1].reason == "signal"
    psutil.wait_procs(running)


def test_no_command_shows_the_secret_and_a_firewall_stands_while_the_run_lasts(machines):
    if shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip("no program nft here: apt-get install nftables")
    tables = ["/usr/sbin/nft", "list", "tables"]
    job = start_long(machines, "hidden", "--firewall")
    running = processes_of(machines.home / "hidden")
    secrets = {p.environ().get(SECRET) for p in running if "train" in p.cmdline()[-20:]}
    held = [machines.run(node, tables).stdout for node in (0, 1)]
    shown = " ".join(
        word for p in psutil.process_iter(["cmdline"]) for word in p.info["cmdline"] or []
    )
    job.send_signal(signal.SIGINT)
    rest = job.stderr.read()
    assert job.wait() == 75, rest
    assert held == ["table inet unisono_29500\n"] * 2
    assert [machines.run(node, tables).stdout for node in (0, 1)] == ["", ""]
    handed_over = [secret for secret in secrets if secret]
    assert handed_over
    assert not any(secret in shown for secret in handed_over)


def test_a_launcher_that_is_killed_leaves_nothing_running(machines):
    job = start_long(machines, "killed")
    running = processes_of(machines.home / "killed")
    assert len(running) > 8
    psutil.Process(job.program).kill()
    psutil.wait_procs(running)
    assert not processes_of(machines.home / "killed")
    # Nobody told it to, but it has saved.
    assert read_run(machines.home / "killed").ends[-1].reason == "signal"
    job.stderr.close()
