"""The kernel's count of our own connections, against what was sent on purpose."""

import fcntl
import os
import socket
import sys
import termios
import time
from contextlib import contextmanager
from threading import Thread

import pytest

from unisono.monitor.connections import Connections, established, sockets_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux tells")


@contextmanager
def connected():
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
        with here, there:
            yield here, there


def send(here, there, count):
    thread = Thread(target=here.sendall, args=(bytes(count),))
    thread.start()
    left = count
    while left:
        left -= len(there.recv(65536))
    thread.join()
    while any(fcntl.ioctl(here, termios.TIOCOUTQ, bytes(4))):  # the last acknowledgement
        time.sleep(0.01)


def peer(connections):
    return connections.look()["127.0.0.1"]


def test_bytes_are_counted_to_the_address_they_go_to_and_kept_after_it_is_closed():
    connections = Connections([os.getpid()])
    with connected() as (here, there):
        before = peer(connections)
        send(here, there, 2_000_000)
        after = peer(connections)
    assert after.sent - before.sent == pytest.approx(2_000_000, abs=2)
    assert after.received - before.received == 2_000_000
    assert after.busiest_sent >= 2_000_000
    assert peer(connections).sent == after.sent
    with connected() as (here, there):
        send(here, there, 1_000_000)
        assert peer(connections).sent == pytest.approx(after.sent + 1_000_000, abs=4)


def test_of_two_connections_the_busier_counts_each_time_and_the_sum_never_falls():
    connections, looks = Connections([os.getpid()]), []
    with connected() as one, connected() as two:
        looks.append(peer(connections))
        for turn, pair in enumerate((one, two, one, two), start=1):
            send(*pair, turn * 500_000)
            looks.append(peer(connections))
    for before, after, turn in zip(looks, looks[1:], (1, 2, 3, 4), strict=False):
        sent = after.busiest_sent - before.busiest_sent
        assert sent == pytest.approx(turn * 500_000, abs=4)
        assert after.busy >= before.busy


def test_connections_of_other_processes_are_not_ours():
    with connected() as (here, there):
        send(here, there, 1_000_000)
        mine = set(sockets_of(os.getpid()))
        assert {here.fileno() > 0, there.fileno() > 0} == {True}
        assert mine & {connection.inode for connection in established()}
        assert Connections([1_000_000_007]).look() == {}


def test_a_sender_that_nobody_listens_to_is_not_called_busy():
    connections = Connections([os.getpid()])
    with connected() as (here, there):
        here.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                here.send(bytes(1 << 20))
        time.sleep(1.0)  # full on both sides: the other does not take it
        busy = peer(connections).busy
    assert busy < 0.5
