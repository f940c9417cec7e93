"""Make one request for one file, and continue where the last one ended."""

import time
from collections.abc import Iterable, Iterator
from http.client import HTTPResponse
from itertools import chain

from unisono.datasets.fetch.partial_file import (
    CHUNK,
    Origin,
    PartialFile,
    check_room,
    describe_start,
    is_web_page,
    mismatch,
)
from unisono.datasets.fetch.remote import Received, Remote
from unisono.datasets.fetch.response import (
    Response,
    addresses,
    parse_response,
    read_some,
    send_request,
)
from unisono.datasets.fetch.retry import (
    AttemptError,
    BrokenError,
    MisfitError,
    RefusedError,
    RetryPolicy,
)
from unisono.units import amount_of_bytes

# No corpus is this large; a server that sends without end must not fill the disk.
LARGEST_DOWNLOAD = 64 << 30


def attempt(
    remote: Remote,
    url: str,
    part: PartialFile,
    policy: RetryPolicy,
    *,
    from_start: bool = False,
) -> Iterator[Received]:
    """Bring `part` from what it is to the whole file, checked, with one request to `url`.

    With `from_start`, ask for the whole file. The bytes so far are dropped only once another
    beginning has arrived: a mirror with another file must not cost them.
    """
    if not _seems_whole(remote, part):
        headers = {} if from_start else _range(remote, url, part)
        asked = part.size if headers else 0
        with send_request(
            url, headers, timeout=policy.timeout, plain=remote.has_checksum
        ) as response:
            answer = parse_response(
                response, remote, asked=asked, longest_pause=policy.longest_pause
            )
            _check_offer(answer, remote, part, response)
            _check_fit(answer, remote, url, part)
            pieces = _pieces(response, answer)
            first = next(pieces, b"")
            if answer.start == 0 and is_web_page(first):
                raise RefusedError(describe_start(first))
            _open_part(answer, url, part)
            yield Received(remote.name, part.size, remote.bytes or part.origin.total)
            yield from _take(chain([first], pieces), answer, remote, part, policy)
    _check(remote, part)


def _seems_whole(remote: Remote, part: PartialFile) -> bool:
    """Return whether there is nothing left to request."""
    if not part.size:
        return False
    if remote.has_checksum:
        return not mismatch(remote, part.size, part.digests) or part.size == remote.bytes
    known = part.origin.url in addresses(remote)
    return known and part.size == (remote.bytes or part.origin.total)


def _range(remote: Remote, url: str, part: PartialFile) -> dict[str, str]:
    """Return the headers that request only the rest, if it can be joined to what is here.

    Without a checksum the server must confirm that it still has the same version: nothing
    else would detect a file joined from two versions.
    """
    if not part.size or part.size >= (remote.bytes or LARGEST_DOWNLOAD):
        return {}
    version = part.origin.version if part.origin.url == url else ""
    if not version and not remote.has_checksum:
        return {}
    wanted = {"Range": f"bytes={part.size}-"}
    return {**wanted, "If-Range": version} if version else wanted


def _check_offer(
    answer: Response, remote: Remote, part: PartialFile, response: HTTPResponse
) -> None:
    """Refuse a file of the wrong size before reading it, and one that does not fit on disk."""
    if remote.bytes and answer.total and answer.total != remote.bytes:
        seen = describe_start(_peek(response)) if answer.start == 0 else "the sizes differ"
        raise RefusedError(
            f"it offers {answer.total:,} bytes instead of {remote.bytes:,}; {seen}"
        )
    if answer.total > max(LARGEST_DOWNLOAD, remote.bytes):
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
        return  # nothing is left; the body only says so
    while data := read_some(response, CHUNK):
        yield data


def _take(
    pieces: Iterable[bytes],
    answer: Response,
    remote: Remote,
    part: PartialFile,
    policy: RetryPolicy,
) -> Iterator[Received]:
    """Append what the server sends, up to the size the file may have."""
    total = remote.bytes or answer.total or part.origin.total
    bound = answer.stop or total or LARGEST_DOWNLOAD
    stall = _StallDetector(part.size, policy)
    for data in pieces:
        if part.size + len(data) > bound:
            part.clear()
            raise RefusedError(f"it sends more than the {bound:,} bytes the file should have")
        part.append(data)
        yield Received(remote.name, part.size, total)
        stall.check(part.size)
    if part.size < (total or answer.stop):
        whole = f"{total or answer.stop:,}"
        raise BrokenError(f"the connection broke after {part.size:,} of {whole} bytes")
    if not answer.delimited and mismatch(remote, part.size, part.digests):
        raise BrokenError(f"the connection ended after {part.size:,} bytes, too early")


class _StallDetector:
    """Detects a connection that is open but delivers next to nothing."""

    def __init__(self, size: int, policy: RetryPolicy) -> None:
        self._size, self._policy = size, policy
        self._since = time.monotonic()

    def check(self, size: int) -> None:
        now = time.monotonic()
        if size - self._size >= self._policy.least_bytes:
            self._size, self._since = size, now
        elif now - self._since > self._policy.timeout:
            raise BrokenError(
                f"fewer than {self._policy.least_bytes} bytes arrived in"
                f" {self._policy.timeout:g} s"
            )


def _check(remote: Remote, part: PartialFile) -> None:
    """Refuse a part that is complete but not the file."""
    wrong = mismatch(remote, part.size, part.digests)
    if not remote.has_checksum and (is_web_page(part.head) or not part.size):
        wrong = wrong or "that is not the file"
    if not wrong:
        return
    seen, in_one_go = describe_start(part.head), part.in_one_go
    part.clear()
    if in_one_go:
        raise RefusedError(f"{wrong}; {seen}")
    raise MisfitError(f"{wrong}; {seen}")
