"""A server with strangers at its port: they are refused, counted and told of once."""

import re
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from unisono.secure.channel import HELLO, NONCE_BYTES, TAG_BYTES, StrangerError, dial
from unisono.secure.secret import new_secret
from unisono.secure.server import (
    FURTHER,
    MOST_ADDRESSES,
    PLACES_PER_ADDRESS,
    SecureServer,
    Strangers,
)

KEY = bytes.fromhex(new_secret())
PATIENCE = 600.0  # beyond every test: no limit of its own


class Echo:
    """A server that returns what it is sent, and what it has told."""

    def __init__(self):
        self.told, self.said = [], threading.Event()
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        self.server = SecureServer(listening, KEY, self._serve, self._tell)

    def _serve(self, channel):
        channel.send(channel.receive(PATIENCE), PATIENCE)

    def _tell(self, text):
        self.told.append(text)
        self.said.set()


@pytest.fixture
def echo():
    echo = Echo()
    yield echo
    echo.server.close()


def works(echo):
    channel = dial(echo.address, KEY, PATIENCE)
    channel.send(b"hello", PATIENCE)
    answer = channel.receive(PATIENCE)
    channel.close()
    return answer == b"hello"


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.9"])
def test_hundreds_of_idle_strangers_keep_nobody_out(echo, source):
    with ExitStack() as idle:
        for _ in range(300):
            stranger = socket.create_connection(echo.address, source_address=(source, 0))
            idle.enter_context(stranger)
        assert all(works(echo) for _ in range(5))
        assert echo.said.wait()
    assert echo.told[0].endswith(f"connections from {source} did not know the run's secret")
    assert len(echo.told) == 1


def test_strangers_on_an_address_of_the_run_make_room_for_each_other(echo, monkeypatch):
    """A known address has a bound, too: the oldest stranger there has to go."""
    monkeypatch.setattr("unisono.secure.server.HANDSHAKE_SECONDS", 600)
    assert works(echo)
    with ExitStack() as idle:
        strangers = [
            idle.enter_context(socket.create_connection(echo.address))
            for _ in range(PLACES_PER_ADDRESS + 1)
        ]
        assert strangers[0].recv(1) == b""
        assert works(echo)


def test_a_wrong_secret_is_counted_and_a_look_at_the_port_is_not(echo):
    socket.create_connection(echo.address).close()
    for _ in range(3):
        with pytest.raises(StrangerError):
            dial(echo.address, bytes(32), PATIENCE)
    assert echo.said.wait()
    counts = echo.server._strangers._counts
    while counts["127.0.0.1"] < 3:
        time.sleep(0.01)
    # How many had come when it was told depends on how busy the machine is.
    told = r"(1 connection|[23] connections) from 127.0.0.1 did not know the run's secret"
    assert len(echo.told) == 1
    assert re.fullmatch(told, echo.told[0])
    assert counts == {"127.0.0.1": 3}
    assert works(echo)


def test_a_stranger_that_sends_any_proof_is_let_go_and_counted(echo):
    with socket.create_connection(echo.address) as stranger:
        stranger.sendall(HELLO + bytes(NONCE_BYTES))
        assert stranger.recv(1)  # the server's own proof
        stranger.sendall(bytes(TAG_BYTES))
        while stranger.recv(1 << 16):
            pass  # it hangs up without waiting for a frame
        assert echo.said.wait()
    assert echo.told == ["1 connection from 127.0.0.1 did not know the run's secret"]


def test_what_is_told_has_a_bound():
    told, others = [], threading.enumerate()
    strangers = Strangers(told.append, seconds=100_000)
    for number in range(1000):
        strangers.refused(f"10.0.{number // 250}.{number % 250}")
    for timer in set(threading.enumerate()) - set(others):
        timer.cancel()
        timer.function(*timer.args)
    rest = 1000 - MOST_ADDRESSES
    assert f"{rest} connections from {FURTHER} did not know the run's secret" in told
    assert len(told) == MOST_ADDRESSES + 1


def test_a_closed_server_listens_no_more(echo):
    echo.server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(echo.address)
