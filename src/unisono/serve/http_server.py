"""An HTTP server with deadlines: uvicorn alone waits for a slow client forever."""

import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import Generator
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from unisono.serve.settings import ServeLimits

IDLE_SECONDS = 30
MOST_HEAD_BYTES = 32_768
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class BoundedProtocol(H11Protocol):
    """A connection whose request has to begin in time, and whose answer has to be read."""

    limits = ServeLimits()
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "too many connections")
        else:
            self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._head_timer:
            self._head_timer.cancel()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        # Closing waits until the client has read everything, but not forever.
        self.loop.call_later(self.limits.head_seconds, self.transport.abort)

    def _watch_head(self) -> None:
        """Set a timer while the head of a request is awaited, and stop it when it is there."""
        awaited = self.cycle is None or self.cycle.response_complete
        if awaited and self._head_timer is None and self.timeout_keep_alive_task is None:
            self._head_timer = self.loop.call_later(self.limits.head_seconds, self._too_slow)
        elif not awaited and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._refuse(408, "the request took too long to arrive")

    def _refuse(self, status: int, message: str) -> None:
        """Answer outside of the application, and close."""
        if self.transport.is_closing():
            return
        body = json.dumps({"error": message}).encode()
        headers = [("content-type", "application/json"), ("connection", "close")]
        headers.append(("content-length", str(len(body))))
        with contextlib.suppress(h11.LocalProtocolError):  # an answer has already begun
            for event in (
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class GracefulServer(uvicorn.Server):
    """A server that finishes what it has accepted when it is told to stop.

    Told a second time, it stops at once.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        before = {number: signal.signal(number, self.handle_exit) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def new_server(application: Starlette, limits: ServeLimits) -> GracefulServer:
    """Return a server of `application` that has not begun."""
    protocol: Any = type("LimitedProtocol", (BoundedProtocol,), {"limits": limits})
    # Whatever strangers send must not fill the log; our own bugs belong there.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return GracefulServer(
        uvicorn.Config(
            application,
            http=protocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # anybody could claim another address
            server_header=False,
            h11_max_incomplete_event_size=MOST_HEAD_BYTES,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=int(limits.stop_seconds),
        )
    )
