"""As much of HTTP as a page and a stream of events need, with limits for what others send."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

LONGEST_HEAD = 16_384
HEAD_SECONDS = 10.0
READ_SECONDS = 20.0  # in which a browser has to read what it was sent
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Connection": "close",
}


@dataclass(frozen=True)
class PageRequest:
    """What a browser asks for; names of headers are in lower case."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]

    def first(self, name: str) -> str:
        """Return a value of the query, "" if it is not there."""
        return self.query.get(name, [""])[0]


class HttpError(Exception):
    """A request that gets a short answer and no page."""

    def __init__(self, status: HTTPStatus, message: str = "") -> None:
        super().__init__(message or status.phrase)
        self.status = status


async def read_request(reader: asyncio.StreamReader) -> PageRequest:
    """Read the head of a request, within `HEAD_SECONDS`."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except TimeoutError as error:
        raise HttpError(HTTPStatus.REQUEST_TIMEOUT) from error
    except asyncio.LimitOverrunError as error:
        raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from error
    return parse_request(head)


def parse_request(head: bytes) -> PageRequest:
    """Parse the head of a request."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or words[1][:1] != "/":
        raise HttpError(HTTPStatus.BAD_REQUEST)
    if words[0] not in ("GET", "HEAD"):
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED)
    pairs = [line.partition(":") for line in lines]
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    try:
        address = urlsplit(words[1])
        query = parse_qs(address.query, max_num_fields=10)
    except ValueError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST) from error
    return PageRequest(words[0], address.path, query, headers)


async def answer(
    writer: asyncio.StreamWriter,
    status: HTTPStatus,
    body: bytes = b"",
    **headers: str,
) -> None:
    """Send an answer of a known length; names of headers have "_" in place of "-"."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    await send(writer, head_of(status, {**given, "Content-Length": str(len(body))}) + body)


def head_of(status: HTTPStatus, headers: dict[str, str]) -> bytes:
    """Return the head of an answer."""
    lines = [f"{name}: {value}" for name, value in {**PAGE_HEADERS, **headers}.items()]
    text = "\r\n".join([f"HTTP/1.1 {status.value} {status.phrase}", *lines, "", ""])
    return text.encode("latin-1")


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send data; raise an error if the other side does not read it in time."""
    writer.write(data)
    async with asyncio.timeout(READ_SECONDS):
        await writer.drain()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection; do not wait for long until the other side has read everything."""
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(READ_SECONDS):
            await writer.wait_closed()
            return
    writer.transport.abort()
