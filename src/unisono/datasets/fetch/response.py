"""Send a request to a web server, and read from its response which bytes follow.

Connections are encrypted wherever possible; redirects lead only to safe addresses.
"""

import ipaddress
import re
import socket
import ssl
import string
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from urllib.error import URLError
from urllib.parse import quote, urljoin, urlsplit, urlunsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from unisono import __version__
from unisono.datasets.fetch.remote import Remote, is_web_address
from unisono.datasets.fetch.retry import (
    AbsentError,
    AttemptError,
    BrokenError,
    MisfitError,
    RefusedError,
)
from unisono.units import duration


def addresses(remote: Remote) -> tuple[str, ...]:
    """Return the addresses of `remote` in the order to try them: encrypted ones first.

    Every http address is tried as https. Plain http is used only if a checksum would reveal
    that somebody on the way changed the file, or on this machine.
    """
    safe = [url if is_private(url) else _as_https(url) for url in remote.urls]
    plain = [url for url in remote.urls if remote.has_checksum and not is_private(url)]
    return tuple(dict.fromkeys(safe + plain))


def is_private(url: str) -> bool:
    """Return whether nobody on the way can read or change what `url` sends."""
    parts = urlsplit(url)
    return parts.scheme == "https" or _is_this_machine(parts.hostname or "")


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _as_https(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.removesuffix(":80")
    return urlunsplit(parts._replace(scheme="https", netloc=host))


MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_REFUSED = "the server is not reachable (connection refused)"
_NETWORK_ERRORS = (OSError, HTTPException, UnicodeError)


def send_request(
    url: str, headers: Mapping[str, str], *, timeout: float, plain: bool = False
) -> HTTPResponse:
    """Return the response for `url` after redirects, whatever its status.

    With `plain`, a redirect from http may lead to http; never from https.
    """
    for _ in range(MOST_REDIRECTS + 1):
        response = _open(url, headers, timeout)
        if response.status not in _REDIRECTS:
            return response
        with response:
            url = _next_hop(url, response.headers.get("Location", ""), plain=plain)
    raise RefusedError(f"it redirects more than {MOST_REDIRECTS} times")


def read_some(response: HTTPResponse, count: int) -> bytes:
    """Return the next bytes as soon as some are there, at most `count`; b"" at the end."""
    try:
        return response.read1(count)
    except TimeoutError as error:
        raise BrokenError("the connection stalled") from error
    except _NETWORK_ERRORS as error:
        raise BrokenError("the connection broke") from error


def _explained(error: Exception) -> AttemptError:
    """Turn an error of the network into one that says whether to try again."""
    connecting = isinstance(error, URLError)
    if isinstance(error, URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, ssl.SSLError):
        return _tls_explained(error)
    if isinstance(error, socket.gaierror):
        return AbsentError(f"the name of the host cannot be resolved ({error.strerror})")
    if isinstance(error, TimeoutError) and connecting:
        return AbsentError("the server is not reachable (connection timed out)")
    if isinstance(error, TimeoutError):
        return BrokenError("the server does not answer")
    if isinstance(error, ConnectionError | HTTPException):
        refused = isinstance(error, ConnectionRefusedError)
        return AbsentError(_REFUSED) if refused else BrokenError("the connection broke")
    return AbsentError(f"no connection ({error})")


def _tls_explained(error: ssl.SSLError) -> AttemptError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return RefusedError(f"its certificate is not trusted ({error.verify_message})")
    if isinstance(error, ssl.SSLEOFError):
        return BrokenError("the connection broke")
    return RefusedError(f"no encrypted connection ({error.reason or error})")


def _open(url: str, headers: Mapping[str, str], timeout: float) -> HTTPResponse:
    # The default opener would also read file: and ftp:, and follow redirects to unsafe
    # addresses.
    opener = OpenerDirector()
    context = ssl.create_default_context()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(context=context)):
        opener.add_handler(handler)
    sent = {"User-Agent": f"unisono/{__version__}", "Accept-Encoding": "identity", **headers}
    try:
        address = quote(url, safe=string.punctuation)
        response = opener.open(Request(address, headers=sent), timeout=timeout)
    except _NETWORK_ERRORS as error:
        raise _explained(error) from error
    if not isinstance(response, HTTPResponse):
        raise RefusedError("it is not the address of a web server")
    return response


def _next_hop(url: str, location: str, *, plain: bool) -> str:
    try:
        # Headers are read as Latin-1, whatever they were: this gives the bytes back.
        target = urljoin(url, quote(location, safe=string.punctuation, encoding="latin-1"))
    except ValueError:
        target = ""
    if not location or not is_web_address(target):
        raise RefusedError(f'it redirects to "{location}", which is not a web address')
    downgraded = urlsplit(url).scheme == "https" and urlsplit(target).scheme == "http"
    if downgraded or not (plain or is_private(target)):
        raise RefusedError(f"it redirects to {target}, which is not encrypted")
    return target


_BUSY = (408, 425, 429)
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_UNMET = re.compile(r"bytes \*/(\d+)")


@dataclass(frozen=True)
class Response:
    """The bytes from `start` up to `stop` of a file of `total` bytes follow (0 = unknown).

    Not `delimited`: the end of the connection is the end of the file, or it broke.
    """

    start: int
    stop: int
    total: int
    version: str
    delimited: bool = True


def parse_response(
    response: HTTPResponse, remote: Remote, *, asked: int, longest_pause: float
) -> Response:
    """Return which bytes follow; all from `asked` on were requested."""
    status = response.status
    if status == 200:
        _check_encoding(response, remote)
        return _whole(response, remote)
    if status == 206 and asked:
        _check_encoding(response, remote)
        return _rest(response, asked)
    if status == 416 and asked:
        return _nothing_left(response, asked)
    raise _failure(response, longest_pause)


def _whole(response: HTTPResponse, remote: Remote) -> Response:
    length = response.length or 0
    delimited = response.chunked or response.length is not None
    if not delimited and not remote.has_checksum:
        raise RefusedError(
            "it does not say how long the file is, so a broken connection would go unnoticed"
        )
    return Response(0, length, length, _version(response), delimited)


def _rest(response: HTTPResponse, asked: int) -> Response:
    said = response.headers.get("Content-Range", "")
    match = _RANGE.fullmatch(said)
    if not match or int(match[1]) != asked or int(match[2]) < asked:
        raise MisfitError(f'for the bytes from {asked} on, it sent "{said}"')
    stop = int(match[2]) + 1
    total = 0 if match[3] == "*" else int(match[3])
    if response.length not in (None, stop - asked) or 0 < total < stop:
        raise MisfitError(f'it sent "{said}" with a length of {response.length}')
    return Response(asked, stop, total, _version(response))


def _nothing_left(response: HTTPResponse, asked: int) -> Response:
    match = _UNMET.fullmatch(response.headers.get("Content-Range", ""))
    if not match or int(match[1]) != asked:
        size = f"{int(match[1]):,} bytes" if match else "fewer bytes"
        raise MisfitError(f"{asked:,} bytes arrived before, but the file there has {size}")
    return Response(asked, asked, asked, "")


def _check_encoding(response: HTTPResponse, remote: Remote) -> None:
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    # Some servers call a .gz file "encoded" and send it unchanged; a checksum verifies it.
    named_so = encoding in ("gzip", "x-gzip") and remote.name.endswith((".gz", ".tgz"))
    if encoding != "identity" and not (named_so and remote.has_checksum):
        raise RefusedError(f'it sends the file in another form (Content-Encoding "{encoding}")')


def _version(response: HTTPResponse) -> str:
    """Return what identifies this version: a strong ETag, else the date, else ""."""
    tag = response.headers.get("ETag", "")
    if tag.startswith('"') and tag.isascii() and tag.isprintable():
        return tag
    date = response.headers.get("Last-Modified", "")
    return date if date.isascii() and date.isprintable() else ""


def _failure(response: HTTPResponse, longest_pause: float) -> AttemptError:
    reason = f"the server answers {response.status} {response.reason}".rstrip()
    if response.status < 500 and response.status not in _BUSY:
        return AbsentError(reason)
    wait = _retry_after(response.headers.get("Retry-After", ""))
    if wait > longest_pause:
        return RefusedError(f"{reason} and asks to come back in {duration(wait)}")
    return BrokenError(reason, wait=wait)


def _retry_after(text: str) -> float:
    if re.fullmatch(r"\d{1,9}", text.strip()):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return 0.0
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max((date - datetime.now(UTC)).total_seconds(), 0.0)
