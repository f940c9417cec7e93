"""The server of the page, as browsers and others meet it: limits, tokens, what is sent."""

import json
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from diagnose.made_runs import step
from live_page.made_files import add_events, write_run
from live_page.running import RunningPage
from report.rich_run import rich_run

pytestmark = pytest.mark.ranks

ALL_PARTS = {"0/head", "0/now", "0/machines", "0/course", "0/charts", "0/translations"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("made") / "run", rich_run())


@pytest.fixture(scope="module")
def local(run):
    with RunningPage(run) as page:
        yield page


@pytest.fixture(scope="module")
def shared(run):
    """A page that other machines may see: here, all addresses of this one."""
    with RunningPage(run, "--host", "0.0.0.0") as page:
        yield page


class Stream:
    """The events of a page, as a browser gets them."""

    def __init__(self, page, **headers):
        self._socket = page.connected()
        lines = ["GET /events HTTP/1.1", f"Host: localhost:{page.port}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._file = self._socket.makefile("rb")
        self.head = b"".join(iter(self._file.readline, b"\r\n"))
        self.identity = ""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()
        self._socket.close()

    def next(self):
        """Return the next event: the patches of some parts."""
        for line in self._file:
            kind, _, words = line.decode().rstrip("\n").partition(": ")
            if kind == "id":
                self.identity = words
            elif kind == "data":
                return json.loads(words)
        raise AssertionError("the stream has ended")

    def until(self, part):
        """Return the next patch of a part."""
        while part not in (event := self.next()):
            pass
        return event[part]


def test_the_page_loads_nothing_from_elsewhere_and_runs_no_other_script(local):
    status, headers, page = local.ask()
    assert status == 200
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.partition("style-src")[0]
    assert "connect-src 'self'" in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert "http:" not in page
    assert "https:" not in page


def test_only_what_is_new_is_sent(local, run):
    parts = {}
    with Stream(local) as stream:
        while not set(parts) >= ALL_PARTS:
            parts |= stream.next()
        assert all(set(patch) == {"whole"} for patch in parts.values())
        add_events(run, [step(201)])
        patch = stream.until("0/course")
        assert set(patch) <= {"set", "at", "cut", "put"}
        assert 5 * len(json.dumps(patch)) < len(parts["0/course"]["whole"])
        identity = stream.identity
    with Stream(local, Last_Event_ID=identity) as again:
        add_events(run, [step(202)])
        seen = {}
        while "0/course" not in seen:
            seen |= again.next()
        assert "0/translations" not in seen


def test_a_token_opens_the_page_once_and_a_cookie_keeps_it_open(shared):
    token = shared.link.partition("token=")[2]
    path = f"/?token={token}"
    assert len(token) >= 40
    assert shared.ask("/")[0] == 403
    assert shared.ask("/events")[0] == 403
    assert shared.ask("/?token=" + token[:-1])[0] == 403
    assert shared.ask(f"/events?token={token}")[0] == 403
    status, headers, body = shared.ask(path)
    assert (status, headers["location"], body) == (303, "/", "")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert token not in cookie
    given = cookie.partition(";")[0]
    status, headers, page = shared.ask("/", Cookie=given, host="elsewhere.example")
    assert status == 200
    assert token not in page + str(headers)
    with Stream(shared, Cookie=given) as stream:
        assert b"200 OK" in stream.head
        assert stream.next()


def test_without_a_token_a_page_from_elsewhere_cannot_read_under_its_own_name(local):
    assert local.ask("/", host="evil.example")[0] == 403
    assert local.ask("/events", host="evil.example")[0] == 403


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", b"431"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"),
        (b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET //[ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
        (b"\xff\xfe\x00\r\n\r\n", b"400"),
        (b"GET /?" + b"a=1&" * 50 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
    ],
)
def test_nonsense_gets_a_short_answer(local, sent, status):
    with local.connected() as connection:
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]
    assert local.ask()[0] == 200


def test_who_says_nothing_or_reads_nothing_is_dropped_and_no_others_wait(run):
    """The limits are constants of modules; here, patience is short and buffers are small."""
    program = (
        "from unisono.live_page import http, server\n"
        "http.HEAD_SECONDS, http.READ_SECONDS, server.SEND_BUFFER = 1.0, 1.0, 4096\n"
        "from unisono.cli import main\n"
        "main()\n"
    )
    with RunningPage(run, program=program) as page, page.connected() as silent:
        with Stream(page) as stream:
            stream.until("0/now")  # from now on, the first message is large
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            slow.connect(("127.0.0.1", page.port))
            slow.sendall(
                f"GET /events HTTP/1.1\r\nHost: localhost:{page.port}\r\n\r\n".encode()
            )
            assert slow.recv(12) == b"HTTP/1.1 200"
            port, server = slow.getsockname()[1], psutil.Process(page.process.pid)
            deadline = time.monotonic() + 240
            while any(c.raddr and c.raddr.port == port for c in server.net_connections()):
                assert time.monotonic() < deadline
                assert page.ask()[0] == 200
        assert b"408" in silent.recv(65536)


def test_there_is_room_for_so_many_and_the_place_of_one_who_leaves_is_free(local):
    held = []
    try:
        while len(held) < 100:
            connection = local.connected()
            connection.sendall(
                f"GET /events HTTP/1.1\r\nHost: localhost:{local.port}\r\n\r\n".encode()
            )
            held.append(connection)
            if b"200" not in connection.recv(15):
                break
        assert len(held) == 32 + 1
        assert local.ask()[0] == 200  # the page itself
    finally:
        for connection in held:
            connection.close()
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        with Stream(local) as stream:
            if b"200 OK" in stream.head:
                return
    raise AssertionError("nobody's place was given to another")


def said(*words):
    command = [sys.executable, "-m", "unisono", "watch", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_what_cannot_be_shown_is_said_before_anything_is_served(tmp_path, run, local):
    code, error = said(tmp_path, "--web")
    assert code
    assert "is not a run directory" in error
    code, error = said(run, run)
    assert "a terminal shows one run, not 2" in error
    code, error = said(run, "--web", "--port", local.port)
    assert "cannot be used" in error
    code, error = said(*[run] * 13, "--web")
    assert "a page shows 12 runs, not 13" in error


def test_the_token_is_in_the_link_and_nowhere_else(run):
    with RunningPage(run, "--host", "0.0.0.0") as page:
        token = page.link.partition("token=")[2]
        page.ask("/?token=" + token)
        words = " ".join(psutil.Process(page.process.pid).cmdline())
        assert token not in words
        assert page.stop(signal.SIGINT) == (0, "")
