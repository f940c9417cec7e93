"""Serves the page and a stream of what changes in it (server-sent events)."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from markupsafe import Markup

from unisono.live_page import parts
from unisono.live_page.access import PageAccess
from unisono.live_page.http import (
    LONGEST_HEAD,
    HttpError,
    PageRequest,
    answer,
    hang_up,
    head_of,
    read_request,
    send,
)
from unisono.live_page.hub import Hub
from unisono.live_page.reader import RunReader
from unisono.report.comparison import HUES
from unisono.report.page import page_environment, page_script, page_style, script_hash

MOST_CONNECTIONS, MOST_BROWSERS = 64, 32
ALIVE_SECONDS = 15.0  # a proxy may close a connection on which nothing is said
MOST_UNSENT = 1 << 14  # bytes that wait here beyond what the kernel holds
SEND_BUFFER = 1 << 18  # bytes that the kernel may hold for a browser that does not read
_HERE = Path(__file__).parent


def render_page(names: Sequence[str]) -> tuple[bytes, str]:
    """Return the page without its parts, which come as events, and its policy."""
    scripts = page_script(), (_HERE / "live.js").read_text("utf-8")
    style = page_style() + (_HERE / "live.css").read_text("utf-8")
    page = page_environment(_HERE).get_template("shell.html.jinja")
    text = page.render(
        names=names,
        parts=parts.PAGE_PARTS,
        hues=HUES,
        css=Markup(style),
        script=Markup(scripts[0]),
        live=Markup(scripts[1]),
    )
    hashes = " ".join(f"'sha256-{script_hash(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return text.encode("utf-8", "replace"), policy


class PageServer:
    """Answers browsers. It asks nobody anything, and writes no log."""

    def __init__(self, names: Sequence[str], access: PageAccess, port: int) -> None:
        self.hub = Hub()
        self._page, self._policy = render_page(names)
        self._access, self._port = access, port
        self._open: set[asyncio.StreamWriter] = set()
        self._browsers = 0
        self._news = asyncio.Event()
        self.reader: RunReader | None = None

    def changed(self) -> None:
        """Wake all streams: the hub has news."""
        self._news.set()
        self._news = asyncio.Event()

    async def close(self) -> None:
        """End all connections."""
        for writer in self._open:
            writer.transport.abort()
        while self._open:
            await asyncio.sleep(0.01)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        if len(self._open) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._open.add(writer)
        writer.transport.set_write_buffer_limits(high=MOST_UNSENT)
        try:
            await self._answer(await read_request(reader), reader, writer)
        except HttpError as error:
            with contextlib.suppress(OSError, TimeoutError):
                body = f"{error}\n".encode()
                await answer(writer, error.status, body, Content_Type="text/plain")
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()  # it left, or does not read
        finally:
            await hang_up(writer)
            self._open.discard(writer)

    async def _answer(
        self, request: PageRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if request.path == "/" and self._access.has_token(request.first("token")):
            cookie = self._access.cookie(self._port)
            await answer(writer, HTTPStatus.SEE_OTHER, Location="/", Set_Cookie=cookie)
            return
        if not self._access.admits(request.headers, self._port):
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                "Open the link that `unisono watch` has printed."
                if self._access.token
                else "Call this page by localhost or 127.0.0.1.",
            )
        if request.path == "/":
            page = b"" if request.method == "HEAD" else self._page
            kind, policy = "text/html; charset=utf-8", self._policy
            await answer(
                writer, HTTPStatus.OK, page, Content_Type=kind, Content_Security_Policy=policy
            )
        elif request.path == "/events":
            await self._stream(request, reader, writer)
        else:
            raise HttpError(HTTPStatus.NOT_FOUND)

    async def _stream(
        self, request: PageRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send what changes until the browser leaves or does not read."""
        if self._browsers >= MOST_BROWSERS:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many browsers")
        self._browsers += 1
        gone = asyncio.ensure_future(reader.read(1))
        try:
            self._watched()
            kind = {"Content-Type": "text/event-stream; charset=utf-8"}
            await send(writer, head_of(HTTPStatus.OK, kind))
            known = self.hub.known(request.headers.get("last-event-id", ""))
            while not gone.done():
                news = self._news
                if known < self.hub.version:
                    message, known = self.hub.since(known), self.hub.version
                    await send(writer, message)
                    continue
                if not await _either(gone, news, ALIVE_SECONDS):
                    await send(writer, b":\n\n")
        finally:
            gone.cancel()
            self._browsers -= 1
            self._watched()

    def _watched(self) -> None:
        if self.reader is not None:
            before, self.reader.watched = self.reader.watched, self._browsers > 0
            if not before and self.reader.watched:
                self.reader.wake()


async def _either(gone: asyncio.Future[bytes], news: asyncio.Event, seconds: float) -> bool:
    """Wait until the browser has gone or there is news; return False if neither came."""
    waiting = asyncio.ensure_future(news.wait())
    either: set[asyncio.Future[Any]] = {gone, waiting}
    try:
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return gone.done() or waiting.done()
    finally:
        waiting.cancel()


async def run_page(
    bound: socket.socket,
    paths: Sequence[Path],
    names: Sequence[str],
    access: PageAccess,
    ready: Callable[[], None],
) -> None:
    """Serve the page of some runs at the address of `bound` until a signal ends it."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _end, stop)
    page = PageServer(names, access, bound.getsockname()[1])

    def changed() -> None:
        loop.call_soon_threadsafe(page.changed)

    def failed(error: Exception) -> None:
        loop.call_soon_threadsafe(_end, stop, error)

    page.reader = RunReader(paths, names, page.hub, changed, failed)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    server = await asyncio.start_server(page.serve, sock=bound, limit=LONGEST_HEAD)
    async with server:
        page.reader.start()
        ready()
        try:
            await stop
        finally:
            server.close()
            await page.close()


def _end(stop: asyncio.Future[None], error: Exception | None = None) -> None:
    if stop.done():
        return
    if error is None:
        stop.set_result(None)
    else:
        stop.set_exception(error)
