"""Ask a web server for a file: encrypted and checked, never led astray."""

import socket
import ssl
import string
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from urllib.error import URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from unisono import __version__
from unisono.corpora.fetch.addresses import is_private
from unisono.corpora.fetch.failures import AbsentError, AttemptError, BrokenError, RefusedError
from unisono.corpora.fetch.remote import is_web_address

MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_REFUSED = "nobody answers there (connection refused)"
_NETWORK_ERRORS = (OSError, HTTPException, UnicodeError)


def ask(
    url: str, headers: Mapping[str, str], *, timeout: float, plain: bool = False
) -> HTTPResponse:
    """Return the server's answer for `url`, redirects followed, whatever its status.

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
        raise BrokenError("the connection stalled: nothing came any more") from error
    except _NETWORK_ERRORS as error:
        raise BrokenError("the connection broke") from error


def _explained(error: Exception) -> AttemptError:
    """Turn what the network stack raised into words, and say whether there is hope."""
    connecting = isinstance(error, URLError)
    if isinstance(error, URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, ssl.SSLError):
        return _tls_explained(error)
    if isinstance(error, socket.gaierror):
        return AbsentError(f"the name of the host cannot be resolved ({error.strerror})")
    if isinstance(error, TimeoutError) and connecting:
        return AbsentError("nobody answers there (no connection in time)")
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
    # Put together by hand: the usual opener would also read file: and ftp:, and follow
    # redirects to places we do not want to go.
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
