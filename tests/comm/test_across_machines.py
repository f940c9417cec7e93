"""Processes of several machines find each other, over the network that joins them."""

import pytest
from join_processes import ends_of, start_on, variables

from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("able")]

PORT = 29500


@pytest.fixture(scope="module")
def lab(able):
    """Two machines; the first knows itself by 127.0.1.1, and has a network nobody shares."""
    with Lab(LabPlan(nodes=2)) as lab:
        spoil = "s/^10.88.0.1 node0$/127.0.1.1 node0/"
        # The file is a mount: it can be written, not replaced.
        do(
            lab,
            0,
            f"sed '{spoil}' /etc/hosts > /dev/shm/hosts && cat /dev/shm/hosts > /etc/hosts",
        )
        do(lab, 0, "ip link add aside0 type veth peer name aside1")
        do(lab, 0, "ip address add 10.99.0.1/24 dev aside0")
        do(lab, 0, "ip link set aside0 up && ip link set aside1 up")
        do(lab, 0, "ip route add default via 10.99.0.9 dev aside0")
        yield lab


def spoil_name(lab):
    """Let node0 mean loopback to itself, as Debian writes it."""
    hosts = lab.run(0, ["cat", "/etc/hosts"]).stdout
    spoilt = hosts.replace("10.88.0.1 node0\n", "127.0.1.1 node0\n")
    assert spoilt != hosts
    do(lab, 0, f"cat > /etc/hosts <<'END'\n{spoilt}\nEND")


def do(lab, node, script):
    done = lab.run(node, ["sh", "-ec", script])
    assert done.returncode == 0, done.stderr


def place(node, size=2, **further):
    return variables(
        node,
        size,
        local_rank=0,
        local_size=1,
        **{"MASTER_ADDR": "node0", "MASTER_PORT": PORT} | further,
    )


def join_all(lab, *changes):
    return ends_of([start_on(lab, node, change) for node, change in enumerate(changes)])


def test_a_host_name_that_means_loopback_and_a_second_network_do_no_harm(lab):
    for end in join_all(lab, place(0, LISTENERS=1), place(1, LISTENERS=1)):
        assert end.exit_code == 0, end.said
        address = f"10.88.0.{end.found['rank'] + 1}"
        assert (end.found["interface"], end.found["address"]) == ("eth0", address)
        assert end.found["backends"] == ["eth0", "=eth0"]
        assert end.found["listeners"] == [address]  # and nowhere else
        assert end.found["warnings"] == []


def test_processes_next_to_process_0_find_it_under_such_a_name_too(lab):
    spots = [(0, 0, 0, 2), (0, 1, 1, 2), (1, 2, 0, 1)]
    common = {"MASTER_ADDR": "node0", "MASTER_PORT": PORT}
    joiners = [
        start_on(lab, node, variables(rank, 3, local_rank, local_size, **common))
        for node, rank, local_rank, local_size in spots
    ]
    for end in ends_of(joiners):
        assert end.exit_code == 0, end.said
        assert end.found["interface"] == "eth0"


def test_a_network_that_the_others_do_not_share_is_found_out_at_once(lab):
    where = {"MASTER_ADDR": "10.88.0.1"}
    first, second = join_all(lab, place(0, INTERFACE="aside0", **where), place(1, **where))
    assert (first.exit_code, second.exit_code) == (4, 4)
    for end in (first, second):  # on the terminal of every machine
        assert "process 1 on node1 (10.88.0.2) cannot reach process 0 on node0" in end.said
        assert "10.99.0.1" in end.said
        assert "sync.interface" in end.said


def test_a_clock_that_is_20_s_behind_ends_the_run_and_one_of_2_s_is_warned_of(lab):
    first, second = join_all(lab, place(0), place(1, SKEW=-20))
    assert (first.exit_code, second.exit_code) == (4, 4)
    for end in (first, second):
        assert "the clock of node1 is 20.0 s behind that of node0" in end.said
    first, second = join_all(lab, place(0), place(1, SKEW=2))
    assert first.exit_code == second.exit_code == 0, first.said + second.said
    assert first.found["warnings"] == ["the clock of node1 is 2.0 s ahead of that of node0"]


def test_who_waits_says_for_whom_and_what_to_check(lab):
    """Process 0 is there, 1 calls a closed port, 2 of nobody, 3 where no machine is."""
    here = {"START": 10}
    ends = ends_of(
        [
            start_on(lab, 0, place(0, 4, **here)),
            start_on(
                lab, 1, place(1, 4, MASTER_PORT=PORT + 1, MASTER_ADDR="10.88.0.1", **here)
            ),
            start_on(lab, 1, place(2, 4, MASTER_ADDR="node9", **here)),
            start_on(lab, 1, place(3, 4, MASTER_ADDR="10.88.0.9", **here)),
        ]
    )
    assert [end.exit_code for end in ends] == [4] * 4
    said = [end.said for end in ends]
    assert "no other machine has connected yet" in said[0]
    assert "process 1 on node1 waits for process 0 at 10.88.0.1 port 29501" in said[1]
    assert "nothing listens yet" in said[1]
    assert "this machine cannot resolve the name node9" in said[2]
    assert "10.88.0.9 port 29500" in said[3]
    assert "firewall" in said[3] or "No route to host" in said[3]
    for text in said:
        told, _, error = text.partition("RunError: after 10.0 s, ")
        assert told.strip()  # before it was too late
        assert "fix:" in error
