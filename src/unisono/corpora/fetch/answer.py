"""What a server answered: which bytes of which version of the file, or why none."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPResponse

from unisono.corpora.fetch.failures import (
    AbsentError,
    AttemptError,
    BrokenError,
    MisfitError,
    RefusedError,
)
from unisono.corpora.fetch.remote import Remote
from unisono.units import duration

_BUSY = (408, 425, 429)
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_UNMET = re.compile(r"bytes \*/(\d+)")


@dataclass(frozen=True)
class Answer:
    """The bytes from `start` up to `stop` of a file of `total` bytes follow (0 = unknown).

    Not `delimited`: the end of the connection is the end of the file, or it broke.
    """

    start: int
    stop: int
    total: int
    version: str
    delimited: bool = True


def understood(
    response: HTTPResponse, remote: Remote, *, asked: int, longest_pause: float
) -> Answer:
    """Return which bytes follow, after all were asked for from `asked` on."""
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


def _whole(response: HTTPResponse, remote: Remote) -> Answer:
    length = response.length or 0
    delimited = response.chunked or response.length is not None
    if not delimited and not remote.has_checksum:
        raise RefusedError(
            "it does not say how long the file is, so nobody can know whether all of it came"
        )
    return Answer(0, length, length, _version(response), delimited)


def _rest(response: HTTPResponse, asked: int) -> Answer:
    said = response.headers.get("Content-Range", "")
    match = _RANGE.fullmatch(said)
    if not match or int(match[1]) != asked or int(match[2]) < asked:
        raise MisfitError(f'asked for the bytes from {asked} on, it sent "{said}"')
    stop = int(match[2]) + 1
    total = 0 if match[3] == "*" else int(match[3])
    if response.length not in (None, stop - asked) or 0 < total < stop:
        raise MisfitError(f'it sent "{said}" with a length of {response.length}')
    return Answer(asked, stop, total, _version(response))


def _nothing_left(response: HTTPResponse, asked: int) -> Answer:
    match = _UNMET.fullmatch(response.headers.get("Content-Range", ""))
    if not match or int(match[1]) != asked:
        size = f"{int(match[1]):,} bytes" if match else "fewer bytes"
        raise MisfitError(f"{asked:,} bytes came before, but the file there has {size}")
    return Answer(asked, asked, asked, "")


def _check_encoding(response: HTTPResponse, remote: Remote) -> None:
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    # Some servers call a .gz file "encoded" and send it as it is; a checksum will tell.
    named_so = encoding in ("gzip", "x-gzip") and remote.name.endswith((".gz", ".tgz"))
    if encoding != "identity" and not (named_so and remote.has_checksum):
        raise RefusedError(f'it sends the file in another form (Content-Encoding "{encoding}")')


def _version(response: HTTPResponse) -> str:
    """Return what names this version of the file: a strong ETag, else its date, else ""."""
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
