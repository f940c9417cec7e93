"""`unisono lab` as a user starts it: what it says, how it stops, what it leaves behind."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from traces import below, gone, network_of, networks_in_use

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able")]

LAB = [sys.executable, "-m", "unisono", "lab"]
ECHO = "trap 'echo bye; exit 9' INT TERM; echo ready; while :; do sleep 0.05; done"


def lab(*words, before=(), **options):
    return subprocess.run(
        [*before, *LAB, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@contextmanager
def started(*words):
    """A laboratory whose programs have all said that they are ready."""
    command = [*LAB, *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            for _ in range(2 if "all" in words else 1):
                line = process.stdout.readline()
                assert line.endswith("ready\n"), process.stderr.read()
            yield process
        finally:
            process.kill()


def test_a_program_runs_on_the_node_that_was_named_with_our_input_and_output():
    done = lab("--nodes", 3, "--on", 2, "--", "sh", "-c", "hostname; cat; exit 7", input="hi\n")
    assert (done.returncode, done.stdout) == (7, "node2\nhi\n")
    assert done.stderr == "on node2; the machines are node0, node1, node2\n"


def test_a_program_on_all_nodes_is_heard_with_their_names():
    script = "hostname; hostname >&2; test $(hostname) = node0 || exit 4"
    done = lab("--on", "all", "--", "sh", "-c", script)
    assert sorted(done.stdout.splitlines()) == ["node0 | node0", "node1 | node1"]
    errors = ["node0 | node0", "node1 ended with exit code 4", "node1 | node1"]
    assert sorted(done.stderr.splitlines()) == errors
    assert done.returncode == 4


def test_who_is_not_root_is_told_so_and_how_it_works_nevertheless():
    refused = lab("--", "true", before=["unshare", "--user"])
    assert refused.returncode == 2
    what, where, fix = refused.stderr.splitlines()
    assert "only root can make a laboratory" in what
    assert where == "  where: user 65534"
    assert "`sudo`" in fix


def test_a_user_who_may_create_namespaces_needs_no_other_right():
    able = subprocess.run(["unshare", "--user", "--map-root-user", "true"], check=False)
    if able.returncode:
        pytest.skip("users may not create namespaces here")
    done = lab("--link", "10mbit", "--", "hostname", before=["unshare", "--map-root-user"])
    assert (done.returncode, done.stdout) == (0, "node0\n")


def test_missing_tools_are_named_with_their_package():
    # A system without iproute2, as far as this process can see.
    script = 'for tool in ip tc; do mount --bind /dev/null "$(which $tool)"; done; exec "$@"'
    hidden = ["unshare", "--mount", "sh", "-c", script, "sh"]
    refused = lab("--", "true", before=hidden)
    assert refused.returncode == 2
    what, _, fix = refused.stderr.splitlines()
    assert what == "error: programs are missing: ip, tc"
    assert fix.endswith("apt-get install iproute2")


def test_a_delay_works_or_says_why_not():
    done = lab("--delay", "5ms", "--", "true")
    if done.returncode:
        assert done.returncode == 2
        assert "this kernel lacks sch_netem, which --delay needs" in done.stderr
        assert "modprobe sch_netem" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", ["0", "all"])
def test_a_signal_stops_everything_and_the_code_is_the_programs(number, where):
    with started("--on", where, "--", "sh", "-c", ECHO) as process:
        machines = below(process.pid)
        process.send_signal(number)
        out, _ = process.communicate()
        assert process.returncode == 9
        names = ["node0 | ", "node1 | "] if where == "all" else [""]
        assert sorted(out.splitlines())[: len(names)] == [f"{name}bye" for name in names]
        assert gone(machines)


def test_the_second_ctrl_c_does_not_wait():
    script = "trap 'echo heard' INT; echo ready; while :; do sleep 0.05; done"
    with started("--on", "all", "--", "sh", "-c", script) as process:
        machines = below(process.pid)
        process.send_signal(signal.SIGINT)
        assert all(process.stdout.readline().endswith("heard\n") for _ in range(2))
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 128 + signal.SIGKILL
        assert gone(machines)


def test_a_laboratory_that_is_killed_takes_everything_with_it():
    script = "trap '' INT TERM HUP; sleep 1000 & setsid sleep 1000 & echo ready; sleep 1000"
    with started("--on", "all", "--link", "10mbit", "--", "sh", "-c", script) as process:
        machines = below(process.pid)
        assert len(machines) >= 8
        networks = {network_of(one.pid) for one in machines}
        assert len(networks) >= 3
        killed = time.time()
        assert networks <= networks_in_use(killed)
        process.kill()
        process.communicate()
        assert gone(machines)
        assert not (networks - {network_of("self")}) & networks_in_use(killed)


def at_terminal(*argv):
    """Run a command at a terminal of its own; return its process and the terminal."""
    process, terminal = pty.fork()
    if process == 0:
        os.execv(argv[0], argv)
    return process, terminal


def command_of(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


def read_until(terminal, text):
    shown = ""
    while text not in shown:
        assert select.select([terminal], [], [], 60)[0], f"no {text!r} in {shown!r}"
        try:
            shown += os.read(terminal, 4096).decode()
        except OSError:
            pytest.fail(f"the terminal closed before {text!r}: {shown!r}")
    return shown


def test_a_shell_on_a_node_has_the_terminal_and_gives_it_back():
    script = '"$@" -- env PS1="at:" bash --norc; echo "code $?"; read word; echo "got $word"'
    process, terminal = at_terminal("/bin/sh", "-c", script, "sh", *LAB)
    try:
        shown = read_until(terminal, "at:")
        shell = os.tcgetpgrp(terminal)
        os.write(terminal, b"echo $((20 + 2)) on $(hostname); sleep 1000\n")
        shown += read_until(terminal, "22 on node0")
        # Before `sleep` has the terminal, Ctrl-C would meet bash, which may then leave; and a
        # process that has it is still a bash for a moment.
        while os.tcgetpgrp(terminal) == shell or command_of(os.tcgetpgrp(terminal)) != "sleep":
            time.sleep(0.01)
        os.write(terminal, b"\x03")
        shown += read_until(terminal, "at:")
        os.write(terminal, b"exit 3\n")
        shown += read_until(terminal, "code 3")
        os.write(terminal, b"ours\n")
        shown += read_until(terminal, "got ours")
        assert "job control" not in shown
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def test_ctrl_c_at_the_terminal_reaches_a_program_that_may_end_in_peace():
    process, terminal = at_terminal(*LAB, "--", "sh", "-c", ECHO)
    try:
        read_until(terminal, "ready")
        os.write(terminal, b"\x03")
        read_until(terminal, "bye")
    finally:
        _, status = os.waitpid(process, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 9
