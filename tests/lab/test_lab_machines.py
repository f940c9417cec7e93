"""Real machines of namespaces: apart from each other, joined by links of known rate."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from traces import networks_in_use, until

from unisono.errors import ConfigError, RunError
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan
from unisono.launch.plan import Command

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able")]

TRANSFER = str(Path(__file__).parent / "transfer.py")
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 9), timeout=1)"


@pytest.fixture(scope="module")
def three(able):
    with Lab(LabPlan(nodes=3)) as lab:
        yield lab


def said(lab, node, *argv):
    done = lab.run(node, argv)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def mbit_per_s(lab, sender, receiver, megabytes):
    receive = [sys.executable, TRANSFER, "receive", "5000"]
    listening = lab.start(receiver, receive, stdout=subprocess.PIPE)
    assert listening.stdout.readline() == "listening\n"
    size = str(int(megabytes * 1e6))
    said(lab, sender, sys.executable, TRANSFER, "send", lab.name(receiver), "5000", size)
    return float(listening.communicate()[0])


def reaches(lab, sender, receiver):
    """Say whether `receiver` answers; that nothing listens there is an answer, too."""
    done = lab.run(sender, [sys.executable, "-c", CONNECT, lab.name(receiver)])
    return "ConnectionRefusedError" in done.stderr


def test_every_machine_has_a_name_and_all_know_it(three):
    for node in range(3):
        assert said(three, node, "hostname") == f"node{node}"
        for other in range(3):
            found = said(three, node, "getent", "hosts", f"node{other}").split()
            assert found == [three.address(other), f"node{other}"]
    assert socket.gethostname() not in {"node0", "node1", "node2"}


def test_every_machine_reaches_all_others_and_itself(three):
    assert all(reaches(three, one, other) for one in range(3) for other in range(3))
    listening = [sys.executable, "-c", "import socket; socket.create_server(('127.0.0.1', 0))"]
    assert three.run(0, listening).returncode == 0


def test_a_machine_sees_its_own_interfaces_and_processes_only(three):
    assert said(three, 1, "ls", "/sys/class/net").split() == ["eth0", "lo"]
    assert len(said(three, 1, "ip", "-oneline", "route").splitlines()) == 1
    marker = "import time; time.sleep(1000)  # seen by node0 alone"
    job = three.start(0, [sys.executable, "-c", marker])
    until(lambda: "node0 alone" in said(three, 0, "ps", "axww"))
    assert "node0 alone" not in said(three, 1, "ps", "axww")
    job.kill()
    job.wait()


def test_a_program_runs_here_and_ends_with_its_own_code(three, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said(three, 2, "pwd") == str(tmp_path)
    assert three.run(2, ["sh", "-c", "exit 7"]).returncode == 7
    assert three.run(2, ["sh", "-c", "kill -9 $$"]).returncode == -9
    assert three.run(0, ["sh", "-c", "echo $X"], variables={"X": "it"}).stdout == "it\n"
    assert three.run(1, ["cat"]).stdout == ""


def test_a_node_that_is_not_there_is_an_error(three):
    with pytest.raises(ConfigError, match="there is no node 3"):
        three.run(3, ["true"])


def test_killing_a_job_kills_what_runs_inside(three):
    script = "sleep 1000 & echo $!; sleep 1000"
    job = three.start(1, ["sh", "-c", script], stdout=subprocess.PIPE)
    inner = job.stdout.readline().strip()
    program = psutil.Process(job.program)
    job.kill()
    assert job.wait() == -signal.SIGKILL
    until(lambda: not program.is_running())
    until(lambda: three.run(1, ["kill", "-0", inner]).returncode != 0)  # no zombie either


def test_signals_reach_the_program_and_it_may_end_in_peace(three):
    script = "trap 'echo stopping; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    job = three.start(1, ["sh", "-c", script], stdout=subprocess.PIPE)
    assert job.stdout.readline() == "ready\n"
    job.terminate()
    assert job.communicate()[0] == "stopping\n"
    assert job.returncode == 5


def test_a_cable_can_be_pulled_and_plugged_in_again(three):
    three.link_down(1)
    assert not reaches(three, 0, 1)
    assert not reaches(three, 1, 2)
    assert reaches(three, 0, 2)
    assert reaches(three, 1, 1)
    three.link_up(1)
    until(lambda: reaches(three, 0, 1))
    until(lambda: reaches(three, 1, 2))


def test_a_connection_outlives_a_short_break_of_its_link():
    with Lab(LabPlan(link="10mbit")) as lab:
        receive = [sys.executable, TRANSFER, "receive", "5000"]
        listening = lab.start(1, receive, stdout=subprocess.PIPE)
        assert listening.stdout.readline() == "listening\n"
        send = [sys.executable, TRANSFER, "send", "node1", "5000", "3000000"]
        sending = lab.start(0, send)
        until(lambda: sent_bytes(lab, 0) > 200_000)
        lab.link_down(1)
        assert sending.poll() is None
        time.sleep(0.5)
        lab.link_up(1)
        assert sending.wait() == 0
        assert listening.wait() == 0


def sent_bytes(lab, node):
    return int(said(lab, node, "cat", "/sys/class/net/eth0/statistics/tx_bytes"))


def test_links_have_the_rates_that_were_asked_for():
    with Lab(LabPlan(link="100mbit", link_from={1: "10mbit"})) as lab:
        assert 30 < mbit_per_s(lab, 0, 1, megabytes=10) < 110
        assert 3 < mbit_per_s(lab, 1, 0, megabytes=2) < 11
        lab.set_link(1, "100mbit")
        assert 30 < mbit_per_s(lab, 1, 0, megabytes=10) < 110
        lab.set_link(1, "20mbit")
        assert 6 < mbit_per_s(lab, 1, 0, megabytes=3) < 22
        assert 6 < mbit_per_s(lab, 0, 1, megabytes=3) < 22
        lab.set_link(0, "")
        lab.set_link(1, "")
        assert mbit_per_s(lab, 0, 1, megabytes=50) > 110


def test_a_machine_can_vanish_and_the_others_stay():
    with Lab(LabPlan()) as lab:
        job = lab.start(1, ["sleep", "1000"])
        until(lambda: job.program is not None)
        lab.power_off(1)
        assert job.wait() == -signal.SIGKILL
        assert said(lab, 0, "hostname") == "node0"
        # The kernel takes the network of a dead machine down a moment later.
        until(lambda: not reaches(lab, 0, 1))


def test_a_laboratory_leaves_nothing_behind():
    before = set(os.listdir("/sys/class/net"))
    with Lab(LabPlan(nodes=2, link="10mbit")) as lab:
        job = lab.start(0, ["sh", "-c", "trap '' TERM INT; sleep 1000 & sleep 1000"])
        until(lambda: job.program is not None)
        network = said(lab, 0, "readlink", "/proc/self/ns/net")
        assert set(os.listdir("/sys/class/net")) == before
        closed = time.time()
        assert network in networks_in_use(closed)
    assert job.returncode == -signal.SIGKILL
    assert network not in networks_in_use(closed)


def test_a_step_that_fails_takes_down_what_was_made_so_far():
    before = psutil.Process().children(recursive=True)
    faster_than_tc_can_count = LabPlan(nodes=2, link="99999999999999gbit")
    with pytest.raises(RunError, match="illegal") as error, Lab(faster_than_tc_can_count):
        pass
    assert "tc qdisc replace" in error.value.where
    assert psutil.Process().children(recursive=True) == before


def test_when_one_node_fails_the_others_are_stopped(monkeypatch):
    monkeypatch.setattr("unisono.launch.fan_out.GRACE_SECONDS", 0.2)
    script = "trap '' TERM; echo waiting; while :; do sleep 0.05; done"
    programs = [(0, Command(("sh", "-c", script))), (1, Command(("sh", "-c", "exit 3")))]
    with Lab(LabPlan()) as lab:
        running = lab.fan_out(programs)
        list(running.events())
        assert running.exit_code == 3


def test_long_and_unfinished_lines_arrive_with_the_name_of_their_node():
    script = "printf 'a\\nb\\n'; printf 'bad \\377 byte\\n' >&2; (sleep 0.3; printf 'no end') &"
    with Lab(LabPlan()) as lab:
        running = lab.fan_out([(node, Command(("sh", "-c", script))) for node in (0, 1)])
        events = list(running.events())
    lines = [event for event in events if hasattr(event, "text")]
    for node in (0, 1):
        heard = [line.text for line in lines if line.node == node and not line.is_error]
        assert heard == ["a", "b", "no end"]
        (error,) = [line.text for line in lines if line.node == node and line.is_error]
        assert error == "bad \N{REPLACEMENT CHARACTER} byte"
