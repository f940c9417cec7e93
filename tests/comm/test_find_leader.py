"""Processes of one machine meet, or say why they do not."""

import socket
from pathlib import Path

import pytest
from join_processes import ends_of, start_here, start_together, variables

from support.ranks import free_port
from unisono.secure.private_socket import listen_private
from unisono.units import duration

pytestmark = pytest.mark.ranks


def at(port, rank, size=2, **further):
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return variables(rank, size, **place | further)


def test_who_is_missing_is_told_and_after_a_while_an_error():
    # Process 0 holds the store: whoever is in it when that leaves says so instead.
    port, waits = free_port(), {0: 9, 2: 5}
    joiners = start_together(at(port, rank, 4, START=wait) for rank, wait in waits.items())
    for (rank, wait), end in zip(waits.items(), ends_of(joiners), strict=True):
        host = socket.gethostname()
        wanted = (
            f"process {rank} on {host} waits on lo (127.0.0.1): 2 of 4 processes are here "
            f"(processes 0, 2 on {host}), missing: processes 1, 3"
        )
        assert end.exit_code == 4
        told, _, error = end.said.partition(f"RunError: after {duration(wait)}, ")
        assert f"process {rank}" in told  # before it was too late
        assert error.startswith(wanted)


def test_a_port_that_another_run_of_this_user_has_is_told():
    port = free_port()
    listening, path = listen_private(f"store-{port}")
    with listening:
        (end,) = ends_of([start_here(at(port, 0))])
    Path(path).unlink()
    assert end.exit_code == 4
    assert f"cannot listen at {path}: another run uses it" in end.said
    assert "MASTER_PORT" in end.said


def test_two_processes_of_one_rank_are_told_apart():
    port = free_port()
    ends = ends_of(start_together(at(port, rank, 3, START=4) for rank in (0, 1, 1)))
    assert [end.exit_code for end in ends] == [4] * 3
    assert sum("two processes claim to be process 1" in end.said for end in ends) == 1


def test_an_interface_that_is_not_there_is_named_with_those_that_are():
    (end,) = ends_of([start_here(at(free_port(), 0, INTERFACE="eth77"))])
    assert end.exit_code == 2
    assert "the network interface `eth77` is not up or does not exist" in end.said
    assert "lo (127.0.0.1)" in end.said
    assert "where: sync.interface" in end.said
    told = at(free_port(), 0, GLOO_SOCKET_IFNAME="eth78", INTERFACE="lo")
    (end,) = ends_of([start_here(told)])
    assert "where: GLOO_SOCKET_IFNAME" in end.said


def test_a_leader_that_goes_away_is_noticed_while_others_are_missing():
    port = free_port()
    first, second = (start_here(at(port, rank, 3, START=40)) for rank in (0, 1))
    while "missing: process 2" not in second.stderr.readline():
        assert second.poll() is None
    first.kill()
    _, end = ends_of([first, second])
    assert end.exit_code == 4
    assert "process 1 lost contact with process 0" in end.said
