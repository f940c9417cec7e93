"""From a list of addresses to a file that was checked: retries, then mirrors."""

from collections.abc import Generator, Iterator
from pathlib import Path

from unisono.datasets.fetch.attempt import attempt
from unisono.datasets.fetch.failures import AttemptError, MisfitError
from unisono.datasets.fetch.partial_file import PartialFile, check_room
from unisono.datasets.fetch.remote import Fetched, Received, Remote
from unisono.datasets.fetch.response import addresses
from unisono.datasets.fetch.retry import RetryBudget, RetryPolicy
from unisono.errors import DataError
from unisono.units import amount_of_bytes, duration


def download(
    remote: Remote, target: Path, patience: RetryPolicy
) -> Generator[Received, None, Fetched]:
    """Yield progress until the file is at `target`, and return what it is."""
    reasons = []
    with PartialFile(target) as part:
        check_room(target, remote.bytes - part.size)
        for url in addresses(remote):
            try:
                yield from _from_one(remote, url, part, patience)
            except AttemptError as error:
                reasons.append(f"{url}: {error.reason}")
            else:
                part.finish()
                found = part.digests
                return Fetched(target, part.origin.url, part.size, found.sha256, found.md5)
        raise _all_failed(remote, part, reasons)


def _from_one(
    remote: Remote, url: str, part: PartialFile, patience: RetryPolicy
) -> Iterator[Received]:
    """Fill `part` from `url`; ask again as long as there is hope."""
    hope, afresh = RetryBudget(part.size, patience), False
    while True:
        try:
            yield from attempt(remote, url, part, patience, afresh=afresh)
        except AttemptError as error:
            afresh = isinstance(error, MisfitError)
            pause = hope.pause_after(error, part.size)
            then = "starting over" if afresh else f"next try in {duration(pause)}"
            note = f"{error.reason}; {then}"
        else:
            return
        yield Received(remote.name, part.size, remote.bytes or part.origin.total, note)
        patience.sleep(pause)


def _all_failed(remote: Remote, part: PartialFile, reasons: list[str]) -> DataError:
    goes_on = part.size and (remote.has_checksum or part.origin.version)
    kept = f" ({amount_of_bytes(part.size)} came and are kept)" if goes_on else ""
    tried = "\n".join(f"    {reason}" for reason in reasons) or "    no address is known"
    again = "try again: it continues where it stopped" if goes_on else "try again later"
    return DataError(
        f"{remote.name} could not be downloaded{kept}:\n{tried}",
        where=str(part.target),
        fix=f"{again}; or download it by hand, save it as {remote.name}, and name its"
        " directory with --from DIR",
    )
