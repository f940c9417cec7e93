"""One request for one file, from where the last one ended."""

import time
from collections.abc import Iterable, Iterator
from http.client import HTTPResponse
from itertools import chain

from unisono.datasets.fetch.failures import (
    AttemptError,
    BrokenError,
    MisfitError,
    RefusedError,
)
from unisono.datasets.fetch.partial_file import (
    CHUNK,
    Origin,
    PartialFile,
    check_room,
    difference,
    glimpse,
    is_web_page,
)
from unisono.datasets.fetch.remote import Received, Remote
from unisono.datasets.fetch.response import Response, addresses, ask, read_some, understood
from unisono.datasets.fetch.retry import RetryPolicy
from unisono.units import amount_of_bytes

# Nobody offers a corpus of this size; a server that never ends must not fill the disk.
MOST_BYTES = 64 << 30


def attempt(
    remote: Remote, url: str, part: PartialFile, patience: RetryPolicy, *, afresh: bool = False
) -> Iterator[Received]:
    """Bring `part` from what it is to the whole file, checked, with one request to `url`.

    If `afresh`, the whole file is asked for. What came before is only dropped when another
    beginning has arrived: a mirror that has something else must not cost what is here.
    """
    if not _seems_whole(remote, part):
        headers = {} if afresh else _range(remote, url, part)
        asked = part.size if headers else 0
        with ask(url, headers, timeout=patience.timeout, plain=remote.has_checksum) as response:
            answer = understood(
                response, remote, asked=asked, longest_pause=patience.longest_pause
            )
            _check_offer(answer, remote, part, response)
            _check_fit(answer, remote, url, part)
            pieces = _pieces(response, answer)
            first = next(pieces, b"")
            if answer.start == 0 and is_web_page(first):
                raise RefusedError(glimpse(first))
            _open_part(answer, url, part)
            yield Received(remote.name, part.size, remote.bytes or part.origin.total)
            yield from _take(chain([first], pieces), answer, remote, part, patience)
    _check(remote, part)


def _seems_whole(remote: Remote, part: PartialFile) -> bool:
    """Whether nothing needs to be asked for any more."""
    if not part.size:
        return False
    if remote.has_checksum:
        return not difference(remote, part.size, part.digests) or part.size == remote.bytes
    known = part.origin.url in addresses(remote)
    return known and part.size == (remote.bytes or part.origin.total)


def _range(remote: Remote, url: str, part: PartialFile) -> dict[str, str]:
    """Return the headers that ask for the rest only, if it can be joined to what is here.

    Without a checksum the server must promise that it still has the same version: nothing
    else would notice a file glued together from two.
    """
    if not part.size or part.size >= (remote.bytes or MOST_BYTES):
        return {}
    version = part.origin.version if part.origin.url == url else ""
    if not version and not remote.has_checksum:
        return {}
    wanted = {"Range": f"bytes={part.size}-"}
    return {**wanted, "If-Range": version} if version else wanted


def _check_offer(
    answer: Response, remote: Remote, part: PartialFile, response: HTTPResponse
) -> None:
    """Refuse a file of the wrong size before it is read, and one there is no room for."""
    if remote.bytes and answer.total and answer.total != remote.bytes:
        seen = glimpse(_peek(response)) if answer.start == 0 else "the sizes differ"
        raise RefusedError(
            f"it offers {answer.total:,} bytes instead of {remote.bytes:,}; {seen}"
        )
    if answer.total > max(MOST_BYTES, remote.bytes):
        raise RefusedError(f"it offers {amount_of_bytes(answer.total)}, which is too much")
    check_room(part.target, (remote.bytes or answer.total) - part.size)


def _peek(response: HTTPResponse) -> bytes:
    try:
        return read_some(response, 64)
    except AttemptError:
        return b""


def _check_fit(answer: Response, remote: Remote, url: str, part: PartialFile) -> None:
    """Refuse to join the rest of one file to the beginning of another."""
    if answer.start == 0:
        return
    before = part.origin
    versions = {before.version, answer.version} - {""} if before.url == url else set()
    totals = {before.total, answer.total, remote.bytes} - {0}
    if len(versions) > 1 or len(totals) > 1:
        raise MisfitError("the file on the server has changed")
    if not totals and not remote.has_checksum:
        raise MisfitError("it sends a part and does not say how long the file is")


def _open_part(answer: Response, url: str, part: PartialFile) -> None:
    if answer.start == 0:
        part.begin(Origin(url, answer.version, answer.total))
        return
    version = answer.version or (part.origin.version if part.origin.url == url else "")
    part.go_on(Origin(url, version, answer.total or part.origin.total))


def _pieces(response: HTTPResponse, answer: Response) -> Iterator[bytes]:
    if answer.start and answer.start == answer.stop:
        return  # nothing is left, and what follows are words about that
    while data := read_some(response, CHUNK):
        yield data


def _take(
    pieces: Iterable[bytes],
    answer: Response,
    remote: Remote,
    part: PartialFile,
    patience: RetryPolicy,
) -> Iterator[Received]:
    """Append what the server sends, and no more than the file may have."""
    total = remote.bytes or answer.total or part.origin.total
    bound = answer.stop or total or MOST_BYTES
    pulse = _Pulse(part.size, patience)
    for data in pieces:
        if part.size + len(data) > bound:
            part.clear()
            raise RefusedError(f"it sends more than the {bound:,} bytes the file should have")
        part.append(data)
        yield Received(remote.name, part.size, total)
        pulse.check(part.size)
    if part.size < (total or answer.stop):
        whole = f"{total or answer.stop:,}"
        raise BrokenError(f"the connection broke after {part.size:,} of {whole} bytes")
    if not answer.delimited and difference(remote, part.size, part.digests):
        raise BrokenError(f"the connection ended after {part.size:,} bytes, too early")


class _Pulse:
    """Notices a connection that is alive and brings next to nothing."""

    def __init__(self, size: int, patience: RetryPolicy) -> None:
        self._size, self._patience = size, patience
        self._since = time.monotonic()

    def check(self, size: int) -> None:
        now = time.monotonic()
        if size - self._size >= self._patience.least_bytes:
            self._size, self._since = size, now
        elif now - self._since > self._patience.timeout:
            raise BrokenError(
                f"fewer than {self._patience.least_bytes} bytes came in"
                f" {self._patience.timeout:g} s"
            )


def _check(remote: Remote, part: PartialFile) -> None:
    """Refuse a part that is complete and not the file."""
    wrong = difference(remote, part.size, part.digests)
    if not remote.has_checksum and (is_web_page(part.head) or not part.size):
        wrong = wrong or "that is not the file"
    if not wrong:
        return
    seen, in_one_go = glimpse(part.head), part.in_one_go
    part.clear()
    if in_one_go:
        raise RefusedError(f"{wrong}; {seen}")
    raise MisfitError(f"{wrong}; {seen}")
