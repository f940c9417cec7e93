"""Requests to the servers that a run is published to. What they answer is bounded.

Tokens are in headers or in the address. Neither is ever part of a message, and no redirect is
followed: what is meant for one server is for this one alone.
"""

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import msgspec

from unisono.errors import ConfigError
from unisono.publish.retry import NotTakenError
from unisono.small_files import PARSER_ERRORS

TIMEOUT_SECONDS = 10.0
MOST_ANSWER_BYTES = 2**20


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow none."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def ask(
    address: str,
    body: object = None,
    headers: Mapping[str, str] = {},
    *,
    most: int = MOST_ANSWER_BYTES,
) -> dict[str, Any]:
    """Send JSON (POST), or nothing (GET), and return the answer; {} if that is no JSON object.

    It is read up to `most` bytes.
    Raises `NotTakenError` unless the server answers with a status of 200 to 299.
    """
    request = urllib.request.Request(
        address,
        data=None if body is None else msgspec.json.encode(body),
        headers={"Content-Type": "application/json", "User-Agent": "unisono", **headers},
    )
    try:
        with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
            data = answer.read(most)
    except urllib.error.HTTPError as error:
        raise NotTakenError(f"it answered with {error.code}", code=error.code) from error
    except OSError as error:
        raise NotTakenError(str(getattr(error, "reason", None) or error)) from error
    except (http.client.HTTPException, ValueError) as error:
        # Its words could repeat the address.
        raise NotTakenError("what it answers is not HTTP") from error
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except PARSER_ERRORS:
        return {}


def check_address(address: str, *, where: str, what: str, fix: str) -> urllib.parse.SplitResult:
    """Return the parts of an http or https address; refuse anything else without showing it."""
    if not _is_address(address):
        raise ConfigError(
            f"the address of {what} is not an http or https address", where=where, fix=fix
        )
    return urllib.parse.urlsplit(address)


def _is_address(text: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(text)
        name, port = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:
        return False
    is_plain = not any(letter.isspace() or not letter.isprintable() for letter in text)
    return is_plain and parts.scheme in ("http", "https") and bool(name) and port != 0


def check_server_address(address: str, server: str, variable: str) -> None:
    """Refuse what is no address of a server, or holds a secret that belongs elsewhere."""
    fix = "such as --server http://127.0.0.1:5000"
    parts = check_address(address, where="--server", what=f"{server}'s server", fix=fix)
    if parts.username or parts.password or parts.query:
        raise ConfigError(
            f"the address of {server}'s server holds more than an address",
            where="--server",
            fix=f"name only http://host:port, and put the token into {variable}",
        )
