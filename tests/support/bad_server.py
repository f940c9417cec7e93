"""A real web server that misbehaves as it is told, and remembers what it was asked.

    with BadServer() as server:
        server.serve("a.gz", Reply(body, break_after=100), Reply(body))

The first request for `a.gz` gets the first reply, and so on; the last reply repeats. Run as
a program it would be a bad idea: it is for tests.
"""

import contextlib
import re
import socket
import ssl
import struct
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Reply:
    """How one request is answered; the defaults are what a good server does."""

    body: bytes = b""
    status: int = 0  # 0: 200, or 206 for a range
    etag: str = ""
    date: str = ""  # Last-Modified
    ranges: bool = True  # False: the whole body whatever is asked
    obey_if_range: bool = True
    content_range: str = ""  # a lie in place of the true one
    length: int | None = None  # a lie in place of the true Content-Length
    chunked: bool = False
    undelimited: bool = False  # neither length nor chunks
    break_after: int | None = None  # bytes of this reply, then the connection breaks
    reset: bool = False  # it breaks with RST instead of FIN
    stall_after: int | None = None  # bytes of this reply, then silence
    drip: float = 0.0  # seconds between single bytes
    headers: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    path: str
    range: str
    if_range: str
    headers: dict


class BadServer:
    """An HTTP (or, with a certificate, HTTPS) server on a free port of this machine."""

    def __init__(self, certificate=None):
        self.replies, self.asked, self.closing = {}, [], threading.Event()
        self.http = _Listener(("127.0.0.1", 0), _Handler)
        self.http.owner = self
        self.scheme = "http"
        if certificate:
            self.scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.server_address[1]
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def url(self, name):
        return f"{self.scheme}://127.0.0.1:{self.port}/{name}"

    def serve(self, name, *replies):
        """Answer requests for `name` with `replies`, the last one again and again."""
        self.replies[f"/{name}"] = list(replies)
        return self.url(name)

    def ranges(self, name):
        """Return the ranges asked for, in order; "" is the whole file."""
        return [asked.range for asked in self.asked if asked.path == f"/{name}"]

    def next_reply(self, path):
        replies = self.replies.get(path)
        if not replies:
            return Reply(b"no such file", status=404)
        return replies.pop(0) if len(replies) > 1 else replies[0]


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Clients leave when they have had enough, and that is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        owner = self.server.owner
        headers = dict(self.headers.items())
        path = re.sub(r"^http://[^/]+", "", self.path)  # asked as a proxy
        asked = Asked(path, headers.get("Range", ""), headers.get("If-Range", ""), headers)
        owner.asked.append(asked)
        self.close_connection = True
        reply = owner.next_reply(path)
        begin = self._begin(reply, asked)
        if begin > len(reply.body) or (begin and begin == len(reply.body)):
            unmet = reply.content_range or f"bytes */{len(reply.body)}"
            self._head(416, {"Content-Range": unmet, "Content-Length": "2"})
            self.wfile.write(b"no")
            return
        self._send(reply, begin)

    def do_CONNECT(self):
        self.server.owner.asked.append(Asked(self.path, "", "", dict(self.headers.items())))
        self.close_connection = True
        self._head(403, {"Content-Length": "0"})

    def _begin(self, reply, asked):
        match = re.fullmatch(r"bytes=(\d+)-", asked.range)
        if not match or not reply.ranges or reply.status not in (0, 206, 416):
            return 0
        same = asked.if_range in ("", reply.etag, reply.date)
        return int(match[1]) if same or not reply.obey_if_range else 0

    def _send(self, reply, begin):
        body = reply.body[begin:]
        headers = {"ETag": reply.etag, "Last-Modified": reply.date, **reply.headers}
        if begin:
            true = f"bytes {begin}-{len(reply.body) - 1}/{len(reply.body)}"
            headers["Content-Range"] = reply.content_range or true
        if reply.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif not reply.undelimited:
            length = len(body) if reply.length is None else reply.length
            headers["Content-Length"] = str(length)
        self._head(reply.status or (206 if begin else 200), headers)
        with contextlib.suppress(OSError):
            self._body(reply, body)

    def _head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()

    def _body(self, reply, body):
        ends = [end for end in (reply.break_after, reply.stall_after) if end is not None]
        sent = body[: min(ends, default=len(body))]
        pieces = [sent[i : i + 1] for i in range(len(sent))] if reply.drip else [sent]
        for piece in pieces:
            self._piece(piece, chunked=reply.chunked)
            if reply.drip and self.server.owner.closing.wait(reply.drip):
                return
        if reply.stall_after is not None:
            self.server.owner.closing.wait(30)
        if reply.reset:
            self.connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self.connection.close()
        elif reply.chunked and not ends:
            self.wfile.write(b"0\r\n\r\n")

    def _piece(self, piece, *, chunked):
        if chunked and piece:
            piece = b"%x\r\n%s\r\n" % (len(piece), piece)
        self.wfile.write(piece)
        self.wfile.flush()

    def log_message(self, *_):
        pass


def make_certificate(directory):
    """Write a key and a certificate for 127.0.0.1 into one file, and return its path."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    both = directory / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())
    return both
