"""Garbage, slow, huge and vanishing clients: each gets an error, and nobody else is hurt."""

import contextlib
import json
import socket
import threading
import time
from http.client import HTTPConnection

import pytest

from serve.running import EN_DE, RunningServer
from unisono.errors import ConfigError
from unisono.secure.listen import bind

pytestmark = pytest.mark.ranks


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=120)


def answered(connection):
    """Return all that the server says until it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def request_of(text, **fields):
    body = json.dumps({"q": text, **EN_DE, **fields}).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff" * 500 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 200 + b"\n\n",
        b"GET / SMTP/1.1\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 10_000,
        b"GET /" + b"a" * 100_000,
    ],
)
def test_garbage_is_answered_with_400(server, garbage):
    with connected(server) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(garbage)
        found = answered(connection)
        assert found == b"" or b" 400 " in found.partition(b"\r\n")[0] + b" "
    assert server.get("/health")[0] == 200


@pytest.fixture(scope="module")
def impatient(bundle, tmp_path_factory):
    """A server that waits only a second for each part of a request."""
    with RunningServer(
        bundle.path, "--patience", "1", "--max-characters", "2000000"
    ) as running:
        yield running


def test_slow_clients_are_cut_off_and_others_are_served_meanwhile(impatient):
    slow = [connected(impatient) for _ in range(50)]
    starts = [b"", b"GET / HT", request_of("abc")[:-5]]
    for number, connection in enumerate(slow):
        connection.sendall(starts[number % len(starts)])
    assert impatient.translate("to be")
    for number, connection in enumerate(slow):
        with connection:
            found = answered(connection)
            assert b"408" in found, (number, found)
            assert b"took too long to arrive" in found


def test_drops_of_a_head_do_not_keep_a_connection(impatient):
    with connected(impatient) as connection:
        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for letter in b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 10_000:
                connection.sendall(bytes([letter]))
                time.sleep(0.05)
        assert time.monotonic() - began < 60


def test_a_connection_may_ask_again_and_again(impatient):
    with contextlib.closing(HTTPConnection("127.0.0.1", impatient.port)) as connection:
        for _ in range(3):
            connection.request("GET", "/health")
            response = connection.getresponse()
            assert (response.status, response.read()[:1]) == (200, b"{")


def test_what_a_client_that_went_away_asked_for_is_not_translated(impatient):
    text = "\n".join(f"word {n}" for n in range(10_000))
    before = impatient.metric("unisono_batch_sentences_sum")
    with connected(impatient) as connection:
        connection.sendall(request_of(text))
        while (waiting := impatient.metric("unisono_waiting_sentences")) < 1000:
            time.sleep(0.02)
    while not impatient.metric("unisono_abandoned_requests_total"):
        time.sleep(0.02)
    assert impatient.metric("unisono_waiting_sentences") == 0
    assert impatient.translate("to be")
    assert impatient.metric("unisono_batch_sentences_sum") - before < waiting


def test_a_megabyte_in_one_line_is_refused_or_bounded(server, impatient):
    text = "to be or not to be. " * 50_000
    status, answer = server.post("/translate", q=text, **EN_DE)
    assert status == 400
    assert "1,000,000 characters exceed the text limit of 100,000" in answer["error"]
    parts = " ".join(f"word{n}" for n in range(100_000))
    status, answer = impatient.post("/translate", q=parts, **EN_DE)
    assert (status, answer["error"][:17]) == (503, "too much waits to")


def test_requests_that_arrive_together_are_translated_together(server, english_to_german):
    lines = [f"to be {n}" for n in range(32)]
    found = {}

    def one(number):
        found[number] = server.translate(lines[number])

    def company():
        """Return how many sentences the others met under way in their worker, in all."""
        parts = (server.metric(f"unisono_batch_sentences_{part}") for part in ("sum", "count"))
        return next(parts) - next(parts)

    before = company()
    for _ in range(20):  # on a busy machine each may be done before the next one comes
        threads = [threading.Thread(target=one, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[number] for number in range(32)] == english_to_german(lines)
        if company() >= before + 32:
            return
    pytest.fail("no sentence met others in its worker")


def test_a_port_in_use_is_an_error_before_any_model_is_loaded():
    with bind("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port} cannot be used") as found:
            bind("127.0.0.1", port)
    assert "--port" in str(found.value)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(ConfigError, match="cannot be used"):
        bind("192.0.2.1", 0)
    with pytest.raises(ConfigError, match="no address of this machine"):
        bind("no such host", 0)
