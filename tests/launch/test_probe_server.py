"""The probe of a machine, with strangers at its port: real sockets, real processes."""

import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import msgspec
import pytest

from support.ranks import free_port
from unisono.launch.probe_client import Connect, Connected, Failed, Listen, Listening
from unisono.launch.probe_server import reply_to

pytestmark = pytest.mark.ranks

TOKEN = "5e" * 16


@contextmanager
def probe(request):
    """A probe server in a process of its own, which has replied to `request`."""
    command = [sys.executable, "-m", "unisono.launch.probe_server"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdin.write(msgspec.json.encode(request) + b"\n")
        process.stdin.flush()
        yield msgspec.json.decode(process.stdout.readline(), type=Listening | Failed)


def test_it_listens_on_the_chosen_address_only():
    port = free_port()
    with probe(Listen(port, TOKEN, ("127.0.0.5",))) as reply:
        assert reply == Listening()
        assert reply_to(Connect("127.0.0.1", port, TOKEN)).is_right
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


def test_a_silent_stranger_neither_blocks_it_nor_hears_the_secret():
    address = "127.0.0.1", free_port()
    with (
        probe(Listen(address[1], TOKEN, address[:1])),
        socket.create_connection(address) as stranger,
    ):
        stranger.setblocking(False)
        for _ in range(3):
            assert reply_to(Connect(*address, TOKEN)).is_right
        with pytest.raises(BlockingIOError):
            stranger.recv(100)  # it has been told nothing


def test_one_that_repeats_what_it_hears_is_not_the_right_machine():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def repeat():
            with server.accept()[0] as caller, suppress(OSError):
                caller.sendall(2 * caller.recv(100))

        threading.Thread(target=repeat, daemon=True).start()
        request = Connect("127.0.0.1", server.getsockname()[1], TOKEN)
        assert reply_to(request) == Connected("127.0.0.1", False)


def test_a_port_that_is_taken_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        request = Listen(taken.getsockname()[1], TOKEN, ("127.0.0.1",))
        with probe(request) as reply:
            assert "Address already in use" in reply.what
