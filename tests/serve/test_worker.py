"""What a worker does with sentences that come while others are under way."""

import socket
import threading

import msgspec
import pytest

from unisono.serve.messages import LENGTH_BYTES, SentenceBatch, WorkerReply, encoded
from unisono.serve.worker import serve
from unisono.translate.line_stream import LineStream

LONG = "a line that takes many steps"


@pytest.fixture
def worker(bundle):
    """A connection to a worker in a thread of this process."""
    ours, theirs = socket.socketpair()
    given = (theirs, [bundle.translator()], LineStream)
    thread = threading.Thread(target=serve, args=given, daemon=True)
    thread.start()
    with ours, ours.makefile("rb") as replies:
        assert reply_from(replies) == WorkerReply()
        yield ours, replies
        ours.shutdown(socket.SHUT_RDWR)
        thread.join(60)
        assert not thread.is_alive()
    theirs.close()


def reply_from(replies):
    length = int.from_bytes(replies.read(LENGTH_BYTES), "big")
    return msgspec.msgpack.decode(replies.read(length), type=WorkerReply)


def test_who_is_done_leaves_and_the_others_stay(worker, english_to_german):
    connection, replies = worker
    order = SentenceBatch(0, 1, [7, 8], [LONG, "x"]), SentenceBatch(0, 1, [9], ["y"])
    connection.sendall(b"".join(map(encoded, order)))
    found, tickets = {}, []
    while len(found) < 3:
        reply = reply_from(replies)
        tickets += reply.tickets
        found |= {t: r[0].text for t, r in zip(reply.tickets, reply.translations, strict=True)}
    assert [found[ticket] for ticket in (7, 8, 9)] == english_to_german([LONG, "x", "y"])
    assert tickets[-1] == 7


def test_another_number_of_alternatives_takes_turns(worker):
    connection, replies = worker
    connection.sendall(encoded(SentenceBatch(0, 1, [1], [LONG])))
    connection.sendall(encoded(SentenceBatch(0, 3, [2, 3], ["x", ""])))
    found = {}
    while len(found) < 3:
        reply = reply_from(replies)
        found |= dict(zip(reply.tickets, map(len, reply.translations), strict=True))
    assert found == {1: 1, 2: 3, 3: 0}
    assert list(found)[-1] == 1


def test_a_message_may_come_in_pieces(worker, english_to_german):
    connection, replies = worker
    message = encoded(SentenceBatch(0, 1, [5], ["to be"]))
    for place in range(len(message)):
        connection.sendall(message[place : place + 1])
    [[found]] = reply_from(replies).translations
    assert [found.text] == english_to_german(["to be"])
