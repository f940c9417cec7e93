"""The store of a run: as torch's own to those who know the secret, closed to all others."""

import contextlib
import pickle
import random
import socket
import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist

from unisono.comm.bootstrap import secure_store
from unisono.comm.bootstrap.secure_store import (
    StoreRequest,
    join_store,
    serve_store,
)
from unisono.comm.bootstrap.store import listen
from unisono.secure.secret import new_secret

SECRET = bytes.fromhex(new_secret())


@pytest.fixture
def served():
    """A store on a loopback port, its address, and what it says of strangers."""
    told = []
    listening = listen("127.0.0.1", 0)
    address = listening.getsockname()
    store = serve_store(listening, address, SECRET, told.append)
    yield store, address, told
    store._server.close()
    store._channel.close()


@pytest.fixture
def guest(served):
    store = join_store(served[1], SECRET, 10)
    yield store
    store._channel.close()


def test_it_answers_as_the_store_of_torch_does(served, guest):
    """The same random calls to both, in the same order; what they return must be equal."""
    theirs = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    draw = random.Random(7)
    keys = [f"key{number}" for number in range(6)]
    for _ in range(400):
        ours = draw.choice([served[0], guest])
        key, value = draw.choice(keys), f"value{draw.randrange(5)}"
        what = draw.choice(["set", "get", "check", "compare_set", "delete_key", "num", "multi"])
        if what == "set":
            ours.set(key, value), theirs.set(key, value)
        elif what == "get" and theirs.check([key]):
            assert ours.get(key) == theirs.get(key)
        elif what == "check":
            assert ours.check([key, keys[0]]) == theirs.check([key, keys[0]])
        elif what == "compare_set":
            before = draw.choice(["", "value1", "value2"])
            answer = theirs.compare_set(key, before, value)
            assert ours.compare_set(key, before, value) == answer
        elif what == "delete_key":
            assert ours.delete_key(key) == theirs.delete_key(key)
        elif what == "multi":
            ours.multi_set([key, "other"], [value, "x"])
            theirs.multi_set([key, "other"], [value, "x"])
            assert ours.multi_get([key, "other"]) == theirs.multi_get([key, "other"])
    assert [ours.add("sum", 3), ours.add("sum", -1)] == [
        theirs.add("sum", 3),
        theirs.add("sum", -1),
    ]
    ours.append("text", "a"), ours.append("text", b"b")
    assert ours.get("text") == b"ab"


def test_a_key_that_comes_later_is_waited_for(served, guest):
    threading.Timer(0.05, served[0].set, ("later", "now")).start()
    assert guest.get("later") == b"now"
    with pytest.raises(RuntimeError, match="never"):
        guest.wait(["never"], timedelta(seconds=0.05))


def test_a_client_with_another_secret_is_refused_and_told_of(served):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="does not know"):
            join_store(served[1], bytes(32), 10)
    served[0].set("still", "here")
    assert served[0].get("still") == b"here"
    wait_until(lambda: served[2])
    assert served[2] == ["2 connections from 127.0.0.1 did not know the run's secret"]


def test_what_torch_would_unpickle_gets_nowhere(served, tmp_path):
    """The attack of old: plant a pickle that runs a command under the rendezvous's key."""

    class Planted:
        def __reduce__(self):
            return (open, (str(tmp_path / "owned"), "w"))

    stranger = socket.create_connection(served[1])
    with stranger, contextlib.suppress(OSError):  # it may be refused before it has said all
        stranger.sendall(pickle.dumps(Planted()))
        assert stranger.recv(100) == b""
    with pytest.raises(RuntimeError):
        dist.TCPStore(*served[1], is_master=False, timeout=timedelta(seconds=1))
    assert served[0].num_keys() == 0
    assert not (tmp_path / "owned").exists()


def test_it_holds_no_more_than_its_bound(served, guest, monkeypatch):
    monkeypatch.setattr(secure_store, "TABLE_BYTES", 100)
    guest.set("a", "b" * 60)
    with pytest.raises(RuntimeError):
        guest.set("c", "d" * 60)
    assert served[0].get("a") == b"b" * 60
    assert not served[0].check(["c"])


def test_idle_strangers_do_not_take_the_places_of_those_who_know(served):
    idle = [socket.create_connection(served[1]) for _ in range(300)]
    try:
        wait_until(lambda: served[2])
        guest = join_store(served[1], SECRET, 10)  # from the strangers' own address
        guest.set("a", "b")
        assert served[0].get("a") == b"b"
        guest._channel.close()
    finally:
        for one in idle:
            one.close()


def test_a_request_of_another_shape_ends_its_connection_only(served, guest):
    guest._channel.send(b"\x93 no request", 5)
    with pytest.raises(RuntimeError, match="gone"):
        guest.set("a", "b")
    served[0].set("a", "c")
    assert served[0].get("a") == b"c"
    with pytest.raises(RuntimeError, match="refuses"):
        served[0]._call(StoreRequest("add", ()))


def wait_until(met):
    while not met():
        time.sleep(0.01)
