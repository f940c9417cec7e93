"""A port that does not answer has a reason, and it is told which."""

import socket

from support.ranks import free_port
from unisono.comm.bootstrap.network import check_port


def test_somebody_answers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = check_port("localhost", server.getsockname()[1])
    assert (found.address, found.source, found.trouble) == ("127.0.0.1", "127.0.0.1", "")


def test_further_addresses_are_tried():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert check_port("no-such-host.invalid", port, ["127.0.0.1"]).address == "127.0.0.1"
        assert check_port("127.0.0.2", port, ["127.0.0.1"]).address == "127.0.0.1"


def test_a_name_that_is_not_known():
    found = check_port("no-such-host.invalid", 1)
    assert found.trouble == "this machine cannot resolve the name no-such-host.invalid"
    assert "/etc/hosts" in found.fix


def test_a_machine_on_which_nobody_listens():
    found = check_port("127.0.0.1", free_port())
    assert "nothing listens yet" in found.trouble
    assert "process 0" in found.fix


def test_a_machine_that_says_nothing():
    """A full queue drops whoever calls, as a firewall does."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(address)
        found = check_port(*address)
        for caller in callers:
            caller.close()
    assert found.trouble == f"127.0.0.1 port {address[1]} does not answer"
    assert "firewall" in found.fix
