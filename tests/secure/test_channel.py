"""The attacks that a channel has to withstand, made for real over sockets."""

import os
import socket
import threading

import pytest

from unisono.errors import ConfigError
from unisono.secure.channel import Channel, StrangerError, accept, connect
from unisono.secure.secret import SECRET, SECRET_FILE, ensure_secret, new_secret, secret_of

KEY = bytes.fromhex(new_secret())
OPEN = []


@pytest.fixture(autouse=True)
def close_sockets():
    yield
    while OPEN:
        OPEN.pop().close()


def joined():
    """Return two sockets that are connected, until the end of the test."""
    both = socket.socketpair()
    OPEN.extend(both)
    return both


def pair(client_secret=KEY, server_secret=KEY, seconds=5.0):
    """Return both ends of a channel, or raise what the server raised."""
    here, there = joined()
    found = {}

    def serve():
        try:
            found["server"] = accept(there, server_secret, seconds)
        except (StrangerError, OSError) as error:
            found["server"] = error
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        found["client"] = connect(here, client_secret, seconds)
    except (StrangerError, OSError) as error:
        found["client"] = error
        here.close()
    thread.join()
    return found["client"], found["server"], here, there


def test_both_ends_talk_once_they_have_proven_the_secret():
    client, server, *_ = pair()
    client.send(b"hello", 5)
    server.send(b"", 5)
    server.send(b"x" * 100_000, 5)
    assert server.receive(5) == b"hello"
    assert (client.receive(5), client.receive(None)) == (b"", b"x" * 100_000)


def test_a_stranger_is_refused_by_either_end():
    client, server, *_ = pair(client_secret=bytes(32))
    assert isinstance(client, StrangerError)
    assert isinstance(server, StrangerError)


def test_the_secret_is_never_sent():
    here, there = joined()
    threading.Thread(target=lambda: _quiet(connect, here), daemon=True).start()
    heard = there.recv(1000)
    assert KEY not in heard
    assert KEY.hex().encode() not in heard
    there.close()


def test_an_answer_to_one_client_is_no_use_for_another():
    """A stranger passes on what the server said to it: the client's nonce is another."""
    here, there = joined()
    threading.Thread(target=lambda: _quiet(accept, there), daemon=True).start()
    here.sendall(b"unisono1" + bytes(32))
    recorded = here.recv(1000)
    mine, theirs = joined()
    failures = []
    thread = threading.Thread(target=lambda: failures.append(_quiet(connect, mine)))
    thread.start()
    theirs.recv(1000)
    theirs.sendall(recorded)
    thread.join()
    assert isinstance(failures[0], StrangerError)


def _quiet(end, connection):
    try:
        return end(connection, KEY, 5)
    except (StrangerError, OSError) as error:
        return error


@pytest.mark.parametrize("damage", ["content", "hash", "length", "replay"])
def test_a_frame_that_was_changed_on_the_way_is_refused(damage):
    client, server, _, there = pair()
    tap = Tap()
    Channel(tap, client._key, serves=False).send(b"pay 10", 5)
    frame = bytearray(tap.sent)
    if damage == "content":
        frame[6] ^= 1
    elif damage == "hash":
        frame[-1] ^= 1
    elif damage == "length":
        frame[0] = 0xFF
    else:
        client.send(b"pay 10", 5)
        assert server.receive(5) == b"pay 10"
    client._connection.sendall(bytes(frame))
    with pytest.raises(StrangerError):
        server.receive(5)
    assert there.fileno() >= 0


class Tap:
    """A connection that only remembers what would be sent."""

    sent = b""

    def settimeout(self, seconds):
        pass

    def sendall(self, data):
        self.sent += data


def test_a_silent_or_slow_stranger_is_let_go_at_the_deadline():
    here, there = joined()
    with pytest.raises(TimeoutError):
        accept(there, KEY, 0.05)
    dripping = threading.Event()

    def drip():
        while not dripping.wait(0.05):  # 40 bytes of a greeting would take 2 s
            try:
                here.sendall(b"u")
            except OSError:
                return

    threading.Thread(target=drip, daemon=True).start()
    with pytest.raises(TimeoutError):
        accept(there, KEY, 0.2)  # each byte would be in time; all of them are not
    dripping.set()


def test_the_secret_comes_from_the_environment_or_from_a_private_file(tmp_path):
    assert secret_of({}) == b""
    assert secret_of({SECRET: KEY.hex()}) == KEY
    path = tmp_path / "secret"
    path.write_text(KEY.hex() + "\n")
    path.chmod(0o600)
    assert secret_of({SECRET_FILE: str(path)}) == KEY
    environ = {}
    ensure_secret(environ)
    first = secret_of(environ)
    ensure_secret(environ)
    assert len(first) == 32
    assert secret_of(environ) == first


@pytest.mark.parametrize("text", ["", "zz", "00" * 31, "0x12"])
def test_a_secret_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="hexadecimal"):
        secret_of({SECRET_FILE: str(path)})


def test_a_secret_that_others_may_read_is_refused(tmp_path):
    path = tmp_path / "secret"
    path.write_text(KEY.hex())
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="other users"):
        secret_of({SECRET_FILE: str(path)})
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        secret_of({SECRET_FILE: str(path)})
    os.mkfifo(path, 0o600)
    with pytest.raises(ConfigError, match="other users"):
        secret_of({SECRET_FILE: str(path)})
